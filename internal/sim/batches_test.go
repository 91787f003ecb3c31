package sim

import (
	"flag"
	"testing"
)

// groupSeeds is how many seeds TestGroupMutations plays, and at least TestBatches and TestFlows.
const groupSeeds = 24

var groups = flag.Uint64("groups", groupSeeds, "how many seeds TestBatches and TestFlows play")

// Clients make batches, submit members, seal and cancel, and requeue failed members, while processes die, SQL and Redis
// fail, and Redis forgets everything: each round that ends has one then job, and no other time has one.
func TestBatches(t *testing.T) {
	t.Parallel()
	s := sum{faults: map[string]int{}}
	for seed := range *groups {
		s.add(play(t, *first+seed, Options{Batches: true}))
	}
	t.Log(&s)
	for _, v := range s.violations {
		t.Error(v)
	}
	if s.faults["then jobs"] < groupSeeds || s.faults["rounds begun again"] < groupSeeds/4 {
		t.Errorf("too few rounds: %s", &s)
	}
}

// Clients submit flows, cancel them and jobs of them, and requeue failed jobs, with the same faults: each job is
// released once, after all that it waits for, and ends as a second model of the flow says.
func TestFlows(t *testing.T) {
	t.Parallel()
	s := sum{faults: map[string]int{}}
	for seed := range *groups {
		s.add(play(t, *first+seed, Options{Flows: true}))
	}
	t.Log(&s)
	for _, v := range s.violations {
		t.Error(v)
	}
	if s.faults["released by a flow"] < 2*groupSeeds || s.faults["brought back by a cascade"] == 0 ||
		s.faults["cancelled by a flow"] < groupSeeds {
		t.Errorf("too few jobs went on: %s", &s)
	}
}
