package sim

import (
	"strings"
	"testing"
)

// groupBugs break what SQL does with batches and flows, one at a time.
var groupBugs = []struct {
	name, rule string
	with       Options
}{
	{"an outcome is counted again", "S30", Options{Batches: true, BatchBugs: BatchBugs{CountsAgain: true}}},
	{"members are counted later", "S30", Options{Batches: true, BatchBugs: BatchBugs{CountsLater: true}}},
	{"a round ends before its last member", "S30", Options{Batches: true, BatchBugs: BatchBugs{ThenEarly: true}}},
	{"a round needs no seal", "S30", Options{Batches: true, BatchBugs: BatchBugs{NeedsNoSeal: true}}},
	{"a sealed batch takes members", "S30", Options{Batches: true, BatchBugs: BatchBugs{JoinsSealed: true}}},
	{"a then job has no row", "S30", Options{Batches: true, BatchBugs: BatchBugs{ThenHasNoRow: true}}},
	{"a requeue begins no round", "S30", Options{Batches: true, BatchBugs: BatchBugs{OneRound: true}}},
	{"a member outlives its submit", "S30", Options{Batches: true, BatchBugs: BatchBugs{KeepsTaken: true}}},
	{"a job is released twice", "S33", Options{Flows: true, FlowBugs: FlowBugs{FreesAgain: true}}},
	{"a job is released by the first end", "S33", Options{Flows: true, FlowBugs: FlowBugs{FreesEarly: true}}},
	{"a flow learns of an end later", "S33", Options{Flows: true, FlowBugs: FlowBugs{FreesLater: true}}},
	{"a released job has no row", "S33", Options{Flows: true, FlowBugs: FlowBugs{HasNoRow: true}}},
	{"a cascade is forgotten", "S33", Options{Flows: true, FlowBugs: FlowBugs{NoCascade: true}}},
	{"a cancel goes one step", "S33", Options{Flows: true, FlowBugs: FlowBugs{CancelsOneStep: true}}},
}

// placeBugs break the scripts of reserved places.
var placeBugs = []bug{
	{"submit sees no places", "submit", "+ taken('reserved') end", "end"},
	{"reserve has no limits", "reserve", "not is_forced and room.full_limit(class, false)", "false"},
	{"reserve keeps a part", "reserve", "if is_refused then return reply end", ""},
	{"a place counts twice", "reserve", "redis.call('HEXISTS', reserved, id) == 1", "false"},
	{"reserve forgets since when", "reserve", "bulk('ZADD', reserving, times)", ""},
	{"restore keeps the place", "restore", "then places.free(reserved, reserving, id) end", "then end"},
	{"a needed place is given back", "unreserve", "not is_needed or places", "true or places"},
	{"a place that is not needed stays", "unreserve", "not is_needed or places", "places"},
	{"places weigh nothing", "reserve", "change_counter(place.tier, 'delayedbytes', n * place.bytes)", ""},
}

// The seeds of TestFlows and TestSchedules find each seeded bug of the places.
func TestPlaceMutations(t *testing.T) {
	t.Parallel()
	for _, b := range placeBugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			broken := b.scripts(t)
			found := ""
			for seed := range uint64(groupSeeds) {
				for _, with := range []Options{{Flows: true, Mutate: broken}, {Schedules: true, Mutate: broken}} {
					if found == "" {
						found = play(t, seed, with).Violation
					}
				}
			}
			if t.Logf("found: %.200s", found); found == "" {
				t.Error("nobody noticed")
			}
		})
	}
}

// The seeds of TestBatches and TestFlows find each seeded bug, by the rule that forbids it.
func TestGroupMutations(t *testing.T) {
	t.Parallel()
	for _, b := range groupBugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			found := ""
			for seed := range uint64(groupSeeds) {
				if found = play(t, seed, b.with).Violation; found != "" {
					t.Logf("caught by seed %d: %.200s", seed, found)
					break
				}
			}
			if !strings.HasPrefix(found, b.rule) {
				t.Errorf("rule %s does not notice (%q)", b.rule, found)
			}
		})
	}
}
