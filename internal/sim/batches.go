package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
)

// With Options.Batches a seed has batches: clients make them, submit members, seal and cancel them, and requeue failed
// members. This file has SQL's part, by the rules of the archive: each transaction that changes members changes the
// counts too, and asks whether the round has ended. batches_plan.go draws the orders, batches_check.go has rule S30.

// BatchBugs are seeded bugs of batches.
type BatchBugs struct {
	CountsAgain  bool // an outcome that SQL had before is counted once more
	CountsLater  bool // members are counted in the transaction behind that of the outcome
	ThenEarly    bool // a round ends while one member lives
	NeedsNoSeal  bool // a round ends although the batch is open
	JoinsSealed  bool // a sealed batch takes members
	ThenHasNoRow bool // nothing is written of the then job
	OneRound     bool // a requeue of a member begins no round
	KeepsTaken   bool // a member stays although its submit was taken back
}

// batches are the batches and their members in SQL.
type batches struct {
	all     map[job.ID]*job.Batch
	members map[job.ID]*member
}

type member struct {
	batch      job.ID
	generation int
	status     job.Status // "" = the job lives
}

// join is the part of a submit's transaction that makes the job a member. It returns why the batch does not take it.
func (w *World) join(r *job.JournalRow) error {
	b := w.sql.batches.all[job.ID(r.Batch)]
	switch {
	case b == nil || b.Owner != r.Owner:
		return job.ErrNoBatch
	case b.Sealed && !w.BatchBugs.JoinsSealed:
		return job.ErrSealed
	}
	if w.sql.batches.members[r.ID] == nil {
		w.sql.batches.members[r.ID] = &member{batch: b.ID, generation: 1}
		b.Total++
	}
	return nil
}

// leave is the part of the take back's transaction that removes a member.
func (w *World) leave(r *job.JournalRow) {
	if r.Batch == "" || w.BatchBugs.KeepsTaken {
		return
	}
	if m := w.sql.batches.members[r.ID]; m != nil && m.status == "" {
		delete(w.sql.batches.members, r.ID)
		b := w.sql.batches.all[m.batch]
		b.Total--
		w.endRound(b)
	}
}

// counted is the part of the outcomes' transaction that counts the ends of members. again are outcomes that SQL had
// before. It returns the rows of the jobs that batches owe now.
func (w *World) counted(fresh, again []job.Outcome) (owed []job.JournalRow) {
	if w.sql.batches == nil {
		return nil
	}
	if w.BatchBugs.CountsLater {
		fresh, w.uncounted = w.uncounted, fresh
	}
	ended := map[job.ID]bool{}
	for i, o := range slices.Concat(fresh, again) {
		m, repeated := w.sql.batches.members[o.ID], i >= len(fresh)
		if m == nil || repeated && !w.BatchBugs.CountsAgain ||
			!repeated && (m.generation != max(o.Generation, 1) || m.status != "") {
			continue
		}
		m.status = o.Status.Shown()
		*countOf(w.sql.batches.all[m.batch], m.status)++
		ended[m.batch] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		owed = append(owed, w.endRound(w.sql.batches.all[id])...)
	}
	return owed
}

// countOf returns the count of the members that ended like this.
func countOf(b *job.Batch, status job.Status) *int64 {
	switch status {
	case job.Completed:
		return &b.Completed
	case job.Cancelled:
		return &b.Cancelled
	case job.Expired:
		return &b.Expired
	}
	return &b.Failed
}

// revived is the part of a promise's transaction that makes a failed member live again.
func (w *World) revived(r *job.JournalRow) {
	if w.sql.batches == nil {
		return
	}
	m := w.sql.batches.members[r.ID]
	if m == nil || m.status != job.Failed || m.generation >= r.Generation {
		return
	}
	b := w.sql.batches.all[m.batch]
	m.status, m.generation = "", r.Generation
	b.Failed--
	if b.EndedRound == b.Round && !w.BatchBugs.OneRound {
		b.Round++
		w.fault("rounds begun again")
	}
}

// endRound is the last statement of each of these transactions.
func (w *World) endRound(b *job.Batch) (owed []job.JournalRow) {
	lives := b.Total - b.Ended()
	if w.BatchBugs.ThenEarly {
		lives--
	}
	if !b.Sealed && !w.BatchBugs.NeedsNoSeal || lives > 0 || b.EndedRound >= b.Round {
		return nil
	}
	b.EndedRound = b.Round
	w.fault("rounds ended")
	as := *b
	as.Sealed = true
	then, is := as.ThenJob()
	if !is || w.BatchBugs.ThenHasNoRow {
		return nil
	}
	r := &row{JournalRow: job.JournalRow{Job: then, Priority: planOf(string(then.Tier)).Priority}, recorded: time.Now()}
	if w.sql.rows[then.ID] == nil {
		w.sql.rows[then.ID] = r
	}
	w.sql.written[then.ID] = time.Now()
	w.fault("then jobs")
	return []job.JournalRow{r.JournalRow}
}

// batchTable is the batches in SQL, as one process sees them.
type batchTable struct{ p *process }

func (t batchTable) CreateBatch(ctx context.Context, b job.Batch, _ job.Idempotency) (job.Batch, bool, error) {
	stored, err := ask(ctx, t.p, "sql batch", string(b.ID), func(d *database) (job.Batch, error) {
		if d.batches.all[b.ID] == nil {
			of := b
			of.Round = 1
			d.batches.all[b.ID] = &of
		}
		return *d.batches.all[b.ID], nil
	})
	return stored, false, err
}

// sealed is the result of SealBatch and of SubmitBatch.
type sealed struct {
	batch job.Batch
	owed  []job.JournalRow
}

func (t batchTable) SubmitBatch(ctx context.Context, b *job.Batch, members []job.JournalRow, _ job.Idempotency) (
	stored job.Batch, jobs []job.ID, owed []job.JournalRow, err error) {
	s, err := ask(ctx, t.p, "sql batch", string(b.ID), func(d *database) (sealed, error) {
		if there := d.batches.all[b.ID]; there != nil {
			return sealed{batch: *there}, nil
		}
		of := *b
		of.Round, of.Total = 1, int64(len(members))
		d.batches.all[b.ID] = &of
		for i := range members {
			id := members[i].ID
			d.batches.members[id] = &member{batch: b.ID, generation: 1}
			d.rows[id], d.written[id] = &row{JournalRow: members[i], recorded: time.Now()}, time.Now()
			t.p.world.fault("came with a batch")
		}
		return sealed{of, append(t.p.world.endRound(&of), members...)}, nil
	})
	return s.batch, nil, s.owed, err
}

func (t batchTable) SealBatch(ctx context.Context, id job.ID, cancel bool) (job.Batch, []job.JournalRow, error) {
	s, err := ask(ctx, t.p, "sql seal", fmt.Sprint(id, " ", cancel), func(d *database) (s sealed, _ error) {
		b := d.batches.all[id]
		if b == nil {
			return s, job.ErrNoBatch
		}
		b.Sealed = true
		s.owed = t.p.world.endRound(b)
		s.batch = *b
		return s, nil
	})
	return s.batch, s.owed, err
}

func (t batchTable) Members(ctx context.Context, batch job.ID, status *job.Status, cursor string, limit int) (
	[]job.BatchMember, string, error) {
	page, err := ask(ctx, t.p, "sql members", fmt.Sprint(batch, " ", cursor), func(d *database) (page []job.BatchMember,
		_ error) {
		for _, id := range slices.Sorted(maps.Keys(d.batches.members)) {
			if m := d.batches.members[id]; m.batch == batch && (status == nil || m.status == *status) {
				page = append(page, job.BatchMember{ID: id, Generation: m.generation, Status: m.status})
			}
		}
		return page, nil
	})
	return page, "", err
}

// The interface of the ledger demands these methods; the simulation does not use them.

func (t batchTable) Batch(context.Context, job.ID) (job.Batch, error) {
	return job.Batch{}, job.ErrNoBatch
}
func (t batchTable) BatchOf(context.Context, job.ID) (job.ID, error) { return "", nil }
func (t batchTable) Batches(context.Context, string, bool, string, int) ([]job.Batch, string, error) {
	return nil, "", nil
}

// inBatches carries out an order about a batch, again and again until an answer comes.
func (c *client) inBatches(p *process) {
	c.fate = refused
	all := ledger.NewBatches(batchTable{p}, p.ledger)
	for range c.tries {
		var err error
		switch c.what {
		case "make a batch":
			text, _ := json.Marshal(payload{c.id})
			then := *c.then
			then.Payload = text
			b := job.Batch{ID: c.id, Tier: then.Tier, Sealed: c.sealed, BatchSpec: job.BatchSpec{Then: &then}}
			if len(c.members) > 0 || c.sealed {
				_, _, err = all.Submit(context.Background(), &b, c.members, job.Idempotency{})
			} else {
				_, _, err = all.CreateBatch(context.Background(), b, job.Idempotency{})
			}
		case "seal":
			_, err = all.Seal(context.Background(), c.id)
		case "cancel a batch":
			_, err = all.Cancel(context.Background(), c.id, "")
		}
		if fate := told(err); fate != refused || c.fate != unknown {
			c.fate = fate
		}
		if c.fate == taken || p.isDead() {
			return
		}
		<-time.After(2 * grid)
	}
}

// deadIn returns the first job of a batch or a flow with a dead letter that was not requeued; "" if there is none.
func (d *database) deadIn(group job.ID) (found job.ID) {
	for l, letter := range d.letters {
		of := letter.Options
		if (of.Batch == string(group) || of.Flow == group) && letter.Open() && (found == "" || l.id < found) {
			found = l.id
		}
	}
	return found
}
