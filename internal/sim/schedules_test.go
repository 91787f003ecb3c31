package sim

import (
	"strings"
	"testing"
)

// scheduleSeeds is how many seeds TestSchedules plays.
const scheduleSeeds = 24

// Two schedules fire in all processes while these are killed, SQL and Redis fail, and Redis forgets everything: each
// occurrence becomes one job that ends, or is missed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := sum{faults: map[string]int{}}
	for seed := range uint64(scheduleSeeds) {
		s.add(play(t, seed, Options{Schedules: true}))
	}
	t.Log(&s)
	for _, v := range s.violations {
		t.Error(v)
	}
	if s.faults["occurrences of allow"] < 2*scheduleSeeds || s.faults["occurrences of skip"] == 0 {
		t.Errorf("too few occurrences became jobs: %s", &s)
	}
}

// A transaction that does not compare the occurrence, or that leaves out the journal row, breaks rule S28.
func TestSchedules_Bugs(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"fires again": {Schedules: true, FiresAgain: true}, "writes no row": {Schedules: true, FiresNothing: true},
	} {
		found := ""
		for seed := uint64(0); seed < scheduleSeeds && !strings.HasPrefix(found, "S28"); seed++ {
			found = play(t, seed, o).Violation
		}
		if !strings.HasPrefix(found, "S28") {
			t.Errorf("%s: nobody noticed (%q)", name, found)
		}
	}
}
