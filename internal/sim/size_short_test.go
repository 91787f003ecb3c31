//go:build !long

package sim

// hunted: of so many bugs one is hunted; size_long_test.go has all.
const hunted = 5
