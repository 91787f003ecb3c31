package main

import "testing"

// The depth bench at smoke size: every figure is there, and whatever it asks is answered as it should be, the audit's
// looks included.
func TestDepthSmoke(t *testing.T) {
	t.Parallel()
	figures, err := depthBench(t.Context(), &lab{options: options{scale: 0.001}})
	if err != nil {
		t.Fatal(err)
	}
	positive(t, figures,
		"waiting only, claim 100: ratio", "waiting only, drain, claim to acknowledge: ratio of cpu", "claim 1: many",
		"position of a job: few",
		"list, from the middle: ratio", "cancel in the middle, to acknowledge: many", "audit, a look at 100 jobs: ratio",
		"drain, claim to acknowledge: ratio of rates",
	)
}
