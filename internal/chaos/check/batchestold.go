package check

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// BatchSeen is a batch as an answer to a client showed it.
type BatchSeen struct {
	ID                      job.ID
	Sent, At                time.Time
	HTTP                    int
	State                   job.BatchState // "" unless HTTP is 200
	Sealed                  bool
	Round                   int
	Total, Living, Finished int64 // Finished = all counts of ended members together
	Then                    job.ID
}

// batchesSeen is the part of S30 that clients see: a batch that was made is known, its rounds do not go back, a sealed
// batch stays sealed, and its counts add up. At rest a client sees what SQL has.
func batchesSeen(b *book) {
	made := map[job.ID]time.Time{} // when a client was told
	for _, of := range b.batches {
		if of.then == nil {
			continue
		}
		for _, op := range of.then.ops {
			if t, told := made[op.ID]; op.Fate == OK && (!told || op.Answered.Before(t)) {
				made[op.ID] = op.Answered
			}
		}
	}
	stored := map[job.ID]*Batch{}
	for i := range b.Batches {
		stored[b.Batches[i].ID] = &b.Batches[i]
	}
	newest := map[job.ID]*BatchSeen{}
	seen := slices.Clone(b.BatchesSeen)
	slices.SortStableFunc(seen, func(x, y BatchSeen) int { return x.At.Compare(y.At) })
	for i := range seen {
		s := &seen[i]
		if told, is := made[s.ID]; is && s.HTTP == http.StatusNotFound && s.Sent.After(told) {
			b.say("S30", s.ID, "the batch was made, and at %s it was not found", clock(s.At))
		}
		if s.HTTP != http.StatusOK {
			continue
		}
		if s.Living < 0 || s.Living+s.Finished != s.Total ||
			s.Living > 0 && (s.State == job.BatchFinished || s.State == job.BatchStuck) {
			b.say("S30", s.ID, "at %s the batch was %s: %d members, %d live, %d have ended", clock(s.At), s.State, s.Total,
				s.Living, s.Finished)
		}
		if r := stored[s.ID]; r != nil && !b.Rested.IsZero() && s.Sent.After(b.Rested) &&
			(s.Round != r.Round || s.Sealed != r.Sealed || s.Total != r.Total || s.Living != 0) {
			b.say("S30", s.ID, "at rest it was shown in round %d, sealed %t, with %d members, %d of them living; SQL has round "+
				"%d, sealed %t, %d members", s.Round, s.Sealed, s.Total, s.Living, r.Round, r.Sealed, r.Total)
		}
		// Two answers that were under way together have no order.
		if before := newest[s.ID]; before != nil && s.Sent.After(before.At) &&
			(s.Round < before.Round || before.Sealed && !s.Sealed) {
			b.say("S30", s.ID, "at %s the batch was in round %d, sealed %t; at %s in round %d, sealed %t", clock(before.At),
				before.Round, before.Sealed, clock(s.At), s.Round, s.Sealed)
		}
		if before := newest[s.ID]; before == nil || s.Round > before.Round || s.Round == before.Round && s.Sealed {
			newest[s.ID] = s
		}
	}
}

// RoundCall is a callback of a batch that arrived.
type RoundCall struct {
	Type    string // batch.finished or batch.stuck
	Counts  job.BatchCounts
	Attempt int // of the CALLBACK job
	At      time.Time
	HTTP    int // the receiver's answer
}

func batchNames(e Evidence) map[string]bool {
	names := map[string]bool{}
	for i := range e.Batches {
		names[e.Batches[i].Name] = true
	}
	return names
}

// toldOfRounds is S30 for callbacks: if the batch asked for it, one CALLBACK job tells of each round that ended, at
// least once, with the counts of the round. There are no other callbacks of batches.
func toldOfRounds(e Evidence, w Witness) (all []Violation) {
	b := &book{}
	made := map[string]int{} // CALLBACK jobs by the name of the batch, which is their trace id
	for i := range e.Outcomes {
		if o := &e.Outcomes[i]; o.Type == job.CallbackType && o.Generation == 1 {
			made[o.Trace]++
		}
	}
	type round struct {
		id job.ID
		n  int
	}
	calls := map[round][]*RoundCall{}
	for i := range w.Rounds {
		c := &w.Rounds[i]
		calls[round{c.Counts.BatchID, c.Counts.Round}] = append(calls[round{c.Counts.BatchID, c.Counts.Round}], c)
	}
	asked, on := map[string]bool{}, map[string]job.ThenOn{}
	for i := range e.Ops {
		if op := &e.Ops[i]; op.Kind == MakeBatch {
			asked[op.Batch], on[op.Batch] = w.Asked[op.Batch].Call, op.On
		}
	}
	for i := range e.Batches {
		r := &e.Batches[i]
		owed := 0
		if asked[r.Name] {
			owed = r.EndedRound
		}
		if n := made[CallbackTrace(r.Name)]; n != owed {
			b.say("S30", r.ID, "%d rounds of the batch %s have to be told of, and %d CALLBACK jobs tell", owed, r.Name, n)
		}
		for n := 1; n <= owed; n++ {
			some := calls[round{r.ID, n}]
			delete(calls, round{r.ID, n})
			if !slices.ContainsFunc(some, func(c *RoundCall) bool { return c.HTTP < 300 }) {
				b.say("S30", r.ID, "round %d of the batch %s has ended, and nobody was told", n, r.Name)
			}
			for _, c := range some {
				b.spoke(r, c, on[r.Name])
			}
		}
	}
	for of, some := range calls {
		b.say("S30", of.id, "at %s somebody was told of the end of round %d, which nobody asked for", clock(some[0].At), of.n)
	}
	slices.SortFunc(b.report.Violations, func(x, y Violation) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.What, y.What))
	})
	return b.report.Violations
}

// spoke checks the counts that a callback has of its round.
func (b *book) spoke(r *Batch, c *RoundCall, on job.ThenOn) {
	want := "batch.finished"
	if on == job.ThenSucceeded && c.Counts.Completed < c.Counts.Total {
		want = "batch.stuck"
	}
	if c.Type != want {
		b.say("S30", r.ID, "the callback of round %d is %s, it has to be %s: %+v", c.Counts.Round, c.Type, want, c.Counts)
	}
	b.told(r, r.ID, &c.Counts)
}
