//go:build !long

package sim

// hunted: the tests look for one of so many bugs. size_long_test.go looks for all.
const hunted = 5

// TestFairness plays with this part of its slots, and its shares may differ by so much.
const (
	fairPart   = 8
	fairWithin = 0.06
)
