//go:build !long

package sim

// hunted: the tests look for one of so many bugs. size_long_test.go looks for all.
const hunted = 5
