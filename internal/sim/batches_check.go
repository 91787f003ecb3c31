package sim

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// S30: a round of a batch ends in the transaction that ends its last living member, or that seals it. Then, and at no
// other time, that transaction writes the row of one then job, with true counts; it has an outcome in the end. A batch
// that is not sealed has no then job. Each job that was accepted into a batch is a member of it.
//
// The rule goes by rows and outcomes of jobs, and not by the members and counts that SQL has of the batch.

// rounds are what the rule knows of a batch.
type rounds struct {
	members map[job.ID]bool // jobs that had a row, and whose submits were not taken back
	over    bool            // it is sealed, and no member lives
	thens   map[job.ID]bool
	ended   int
}

// batchesHold checks rule S30 after each transaction.
func (w *World) batchesHold() {
	if w.sql.batches == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(w.sql.batches.all)) {
		of := w.rounds[id]
		if of == nil {
			of = &rounds{members: map[job.ID]bool{}, thens: map[job.ID]bool{}}
			w.rounds[id] = of
		}
		w.batchHolds(w.sql.batches.all[id], of)
	}
}

func (w *World) batchHolds(b *job.Batch, of *rounds) {
	var fresh []*row
	for id, r := range w.sql.rows {
		if r.Batch == string(b.ID) {
			of.members[id] = true
		}
		if r.ThenOf == string(b.ID) && !of.thens[id] {
			of.thens[id] = true
			fresh = append(fresh, r)
		}
	}
	is, lives := w.recount(b, of)
	was := of.over
	of.over = b.Sealed && !lives
	begins := of.over && !was
	if begins {
		of.ended++
	}
	is.Round = of.ended
	due := begins && (b.Then.On == job.ThenFinished || is.Completed == is.Total)
	switch {
	case !due && len(fresh) > 0:
		w.fail("S30", "the batch %s has a then job too many: sealed %t, a member lives %t, %d rounds have ended: %v", b.ID,
			b.Sealed, lives, of.ended, fresh[0].ID)
	case due && len(fresh) != 1:
		w.fail("S30", "round %d of the batch %s has ended, and %d then jobs are owed", of.ended, b.ID, len(fresh))
	case due:
		var says struct {
			Batch job.BatchCounts `json:"batch"`
		}
		if _ = json.Unmarshal(fresh[0].Payload, &says); says.Batch != is {
			w.fail("S30", "the then job of the batch %s says %+v, not %+v", b.ID, says.Batch, is)
		}
	}
	counts := b.Counts()
	if counts.Round = is.Round; counts != is {
		w.fail("S30", "SQL counts %+v, and the batch has %+v", counts, is)
	}
}

// recount counts the members by their rows and outcomes. It forgets members whose submits were taken back.
func (w *World) recount(b *job.Batch, of *rounds) (is job.BatchCounts, lives bool) {
	is = job.BatchCounts{BatchID: b.ID, Name: b.Name}
	for id := range of.members {
		last, ended := w.sql.latest(id)
		r := w.sql.rows[id]
		switch {
		case r == nil && !ended:
			delete(of.members, id)
			continue
		case !ended, r != nil && r.Generation > last.Generation, w.sql.promised(life{id, last.Generation}):
			lives = true
		case last.Status == job.Completed:
			is.Completed++
		case last.Status == job.Failed:
			is.Failed++
		case last.Status == job.Cancelled:
			is.Cancelled++
		case last.Status == job.Expired:
			is.Expired++
		}
		is.Total++
	}
	return is, lives
}

// batchesEnded checks rule S30 at the end of a run.
func (w *World) batchesEnded() {
	if w.sql.batches == nil {
		return
	}
	for id, of := range w.rounds {
		for then := range of.thens {
			if _, ended := w.sql.latest(then); !ended {
				w.fail("S30", "the then job %s of the batch %s has no outcome", then, id)
			}
		}
		if b := w.sql.batches.all[id]; b.Sealed != of.over {
			w.fail("S30", "the batch %s: all rests, sealed %t, and its round is over: %t", id, b.Sealed, of.over)
		}
	}
	for _, c := range w.clients {
		if c.what == "make a batch" && c.fate == refused && w.sql.batches.all[c.id] != nil {
			w.fail("S30", "%s: SQL has it", c)
		}
		if c.fate != taken {
			continue
		}
		switch b := w.sql.batches.all[c.id]; c.what {
		case "make a batch", "seal", "cancel a batch":
			if b == nil || c.what != "make a batch" && !b.Sealed {
				w.fail("S30", "%s: SQL does not have it", c)
			}
		case "submit":
			if of := w.rounds[c.batch]; c.batch != "" && c.first == "" && !of.members[c.id] {
				w.fail("S30", "%s: it is no member", c)
			}
		}
	}
}
