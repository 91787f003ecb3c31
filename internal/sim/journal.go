package sim

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// With the accept journal SQL has the row of a submit, and its Idempotency-Key, before Redis is asked. Half of the
// seeds have the journal on. Their clients submit by the rules of admission, which journal_client.go writes down once
// more, and processes stand still or die between the row, the script and the taking back. In half of those seeds that
// have faults Redis forgets everything.

// The times of admission and of the archive's journal.
const (
	submitPatience = 1500 * time.Millisecond
	scriptTime     = 600 * time.Millisecond
	rowTime        = time.Second
	backTime       = 400 * time.Millisecond
	submitPause    = 50 * time.Millisecond
	fewTries       = 3 // refusals of a call, and then the submit is refused
)

// JournalBugs are faults that somebody may build into the journal one day.
type JournalBugs struct {
	OwesNothing    bool // the giver leaves rows to the submits that wrote them, and gives Redis their jobs all the same
	TakesAnyRow    bool // a row is taken back also when it is not the submit's any more
	KeepsKeys      bool // a row is taken back without its key
	RepliesAtOnce  bool // a repeat is answered with a job whose own submit may still be refused
	RowLast        bool // the row is written after the script
	RefusesAlways  bool // a submit is told that it is refused although its row could not be taken back
	KeepsRows      bool // an outcome does not delete the row
	FoundIsNotOwed bool // a row whose job was found in Redis stays its submit's, and is not given to the next Redis
	GivesNothing   bool // rows of a Redis that is over are taken for those of the present one
}

// keyHeld is an Idempotency-Key in SQL.
type keyHeld struct {
	body    string
	id      job.ID
	expires time.Time
}

// Where a process stands still while it has a submit.
const (
	beforeScript   = "before the script"
	beforeTakeBack = "before the take back"
)

// When a process that stands still goes on, at the latest after its time.
const (
	atTheLook = "the giver looks" // the giver has found the row
	atTheRead = "the giver reads" // and is about to give Redis its job
)

// sqlLate is a transaction of the journal that is committed when its caller waits no longer.
const sqlLate = "SQL executed late"

// ofJournal says whether a call is one of the journal's transactions.
func (c *call) ofJournal() bool { return c.name == "sql submit" || c.name == "sql take back" }

// writeSubmit is the transaction of a submit: its key, which stays with its first holder, and its row.
func (w *World) writeSubmit(r *job.JournalRow) job.KeyHolder {
	d, now := w.sql, time.Now()
	if key := r.Idempotency; key.Key != "" {
		h := d.keys[key.Key]
		if h == nil || !h.expires.After(now) {
			h = &keyHeld{key.Body, r.ID, now.Add(w.plan.keepKeys)}
			d.keys[key.Key] = h
		}
		if h.id != r.ID {
			of := d.rows[h.id]
			return job.KeyHolder{
				ID: h.id, OtherBody: h.body != key.Body,
				Submitting: of != nil && of.untaken(&w.Journal) && !w.Journal.RepliesAtOnce,
			}
		}
	}
	if d.rows[r.ID] == nil {
		d.rows[r.ID] = &row{JournalRow: *r, recorded: now}
	}
	d.written[r.ID] = now
	return job.KeyHolder{}
}

// takeBack is the transaction that removes a row which is still its submit's, and its key.
func (w *World) takeBack(r *job.JournalRow) (gone bool) {
	d := w.sql
	is := d.rows[r.ID]
	if is == nil || !is.untaken(&w.Journal) && !w.Journal.TakesAnyRow {
		return false
	}
	delete(d.rows, r.ID)
	if h := d.keys[r.Idempotency.Key]; h != nil && h.id == r.ID && !w.Journal.KeepsKeys {
		delete(d.keys, r.Idempotency.Key)
	}
	w.report.Faults["taken back"]++
	return true
}

func (p *process) writeSubmit(ctx context.Context, r *job.JournalRow) (job.KeyHolder, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTime)
	defer cancel()
	return ask(ctx, p, "sql submit", string(r.ID), func(*database) (job.KeyHolder, error) {
		return p.world.writeSubmit(r), nil
	})
}

func (p *process) takeBack(r *job.JournalRow) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), backTime)
	defer cancel()
	return ask(ctx, p, "sql take back", string(r.ID), func(*database) (bool, error) { return p.world.takeBack(r), nil })
}

// untaken says whether the row's submit may take it back.
func (r *row) untaken(bugs *JournalBugs) bool {
	return r.Submitting && (r.Incarnation == "" || bugs.FoundIsNotOwed)
}

// sight is what the giver did with a row.
type sight struct {
	id   job.ID
	what string
}

// journaled: whatever Redis has, or had when it lost it, SQL has too: a row, or an outcome.
func (w *World) journaled() {
	if !w.plan.journal {
		return
	}
	for id, k := range w.shadow.all() {
		_, ended := w.sql.outcomes[life{id, k.generation}]
		if r := w.sql.rows[id]; !ended && !w.sql.outliving[id] && (r == nil || r.Generation < k.generation) {
			w.fail("S1", "%s: SQL has neither its row nor its outcome", k)
		}
	}
}

// oneEach: a refused submit leaves no row and no key, and two jobs that Redis got under one key are further apart than
// a key lives.
func (w *World) oneEach() {
	under := map[string][]job.ID{}
	for _, c := range w.clients {
		if c.what != "submit" || !w.plan.journal {
			continue
		}
		if key := c.once.Key; key != "" && w.shadow.of(c.id) != nil {
			for _, other := range under[key] {
				if w.sql.written[c.id].Sub(w.sql.written[other]).Abs() < w.plan.keepKeys {
					w.fail("S13", "%s and %s are two jobs under one key", other, c.id)
				}
			}
			under[key] = append(under[key], c.id)
		}
		if c.fate != refused {
			continue
		}
		if w.sql.rows[c.id] != nil {
			w.fail("S3", "%s: its row is there", c)
		}
		if h := w.sql.keys[c.once.Key]; h != nil && h.id == c.id {
			w.fail("S13", "%s: its key stands for it", c)
		}
	}
}
