//go:build long

package sim

const hunted = 1

// TestFairness plays with this part of its slots, and its shares may differ by so much.
const (
	fairPart   = 1
	fairWithin = 0.03
)
