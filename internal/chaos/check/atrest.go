package check

import (
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// said assigns the findings of Redis' audit to the invariants, by words in the finding.
var said = []struct{ words, invariant string }{
	{"quarantine", "S1"},
	{"retries of", "S4"},
	{"score ", "S8"},
	{"counter ", "S9"},
	{"time to live", "S10"},
	{"stays for ever", "S10"},
	{"kept", "S10"},
	{"history of", "S10"},
	{"key ", "S10"},
	{"without first, token", "S11"},
	{", started ", "S15"},
	{", ended ", "S15"},
}

// redisAtRest is S6, and the part of other invariants that one audit of Redis shows: every job is in exactly one
// place, the counters agree with the sets, and no job that has not ended has a time to live.
func redisAtRest(b *book) {
	for _, wrong := range b.Redis {
		invariant := "S6"
		for _, s := range said {
			if strings.Contains(wrong, s.words) {
				invariant = s.invariant
				break
			}
		}
		b.say(invariant, "redis", "%s", wrong)
	}
	if beats, maxtimes := b.Places["heartbeat_deadlines"], b.Places["run_deadlines"]; beats != maxtimes {
		b.say("S6", "redis", "%d jobs are watched for their heartbeats, %d for their time", beats, maxtimes)
	}
}

// countersAtRest is S9: each counter equals what it counts.
func countersAtRest(b *book) {
	for _, c := range []struct{ counter, set string }{{"fresh", "queue"}, {"delayed", "scheduled"},
		{"outbox_bytes", "outbox"}} {
		if n := b.Places[c.counter]; n < 0 || n > 0 && b.Places[c.set]+b.Places["reserved"] == 0 {
			b.say("S9", "redis", "the counter %s is %d, with %d in %s", c.counter, n, b.Places[c.set], c.set)
		}
	}
	sums := map[string]int{}
	for name, n := range b.Places {
		if tier, field, ok := strings.Cut(name, ":"); ok {
			sums[field] += n
			if n < 0 {
				b.say("S9", "redis", "the counter %s of %s is %d", field, tier, n)
			}
		}
	}
	for field, set := range map[string]string{"ready": "queue", "scheduled": "scheduled",
		"running": "heartbeat_deadlines"} {
		if n, ok := sums[field]; ok && n != b.Places[set] {
			b.say("S9", "redis", "the counters %s add up to %d, with %d in %s", field, n, b.Places[set], set)
		}
	}
}

// storesAgree is S19: a job that has ended in SQL is not alive in Redis or in the journal, and its end is the same
// in Redis and SQL.
func storesAgree(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		switch o := j.outcome(j.liveGeneration); {
		case j.live == "":
		case j.contradicted():
			b.say("S19", id, "Redis says %s, SQL has %s", b.Live[id], j.outcomes[len(j.outcomes)-1].Outcome)
		case !j.lives() && o != nil && o.Outcome != j.live:
			b.endedTwice(id, o.Generation)
			b.say("S19", id, "Redis says %s, SQL says %s", b.Live[id], o.Outcome)
		}
	}
	for _, id := range b.Journal {
		if j := b.jobs[id]; j != nil && len(j.outcomes) > 0 && j.outcomes[len(j.outcomes)-1].Generation >= j.generations() {
			b.say("S19", id, "it is %s, and the journal still has it", j.outcomes[len(j.outcomes)-1].Outcome)
		}
	}
}

// contradicted says whether a job is alive in Redis and has an outcome in SQL.
func (j *entry) contradicted() bool {
	return j.lives() && len(j.outcomes) > 0 && j.outcomes[len(j.outcomes)-1].Generation >= j.liveGeneration
}

// atRest is L1: after the last fault everything came to rest within the bound.
func atRest(b *book) {
	switch {
	case b.Rested.IsZero():
		b.say("L1", "run", "it did not come to rest within %s", b.Bound)
	case b.Bound > 0 && b.Rested.Sub(b.Quiet) > b.Bound:
		b.say("L1", "run", "it came to rest after %s, the bound is %s", b.Rested.Sub(b.Quiet), b.Bound)
	}
	for _, set := range []string{"queue", "scheduled", "heartbeat_deadlines", "outbox"} {
		if n := b.Places[set]; n > 0 {
			b.say("L1", "redis", "%d jobs are still in %s", n, set)
		}
	}
	waiting := slices.IndexFunc(b.order, func(id job.ID) bool { return b.jobs[id].lives() && !b.jobs[id].contradicted() })
	if n := b.Places["queue"] + b.Places["scheduled"] + b.Places["heartbeat_deadlines"]; n == 0 && waiting >= 0 {
		b.say("L1", b.order[waiting], "Redis still has it as %s", b.Live[b.order[waiting]])
	}
}
