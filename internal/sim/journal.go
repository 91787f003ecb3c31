package sim

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// With the accept journal SQL has the row of a submit, and its Idempotency-Key, before Redis is called. Half of
// the seeds have the journal. Their clients submit by the rules of admission, which journal_client.go implements a
// second time. Processes stop or die between the row, the script and the taking back of a row. In half of those
// seeds that have faults Redis forgets everything.

// These are the times of admission and of the archive's journal. The patience of a submit is 3 ms shorter than in
// admission: it began on the grid, as its calls did, and would end at the same instant as the timeout of one of them.
// Which of the two the client sees first would then be chance.
const (
	submitPatience = 1497 * time.Millisecond
	scriptTime     = 600 * time.Millisecond
	rowTime        = time.Second
	backTime       = 400 * time.Millisecond
	submitPause    = 50 * time.Millisecond
	fewTries       = 3 // after so many refused calls the submit is refused
)

// JournalBugs are seeded bugs of the journal.
type JournalBugs struct {
	OwesNothing    bool // restore leaves rows to the submits that wrote them, and gives Redis their jobs all the same
	TakesAnyRow    bool // a submit takes back a row that is not its own any more
	KeepsKeys      bool // a row is taken back without its key
	RepliesAtOnce  bool // a repeat gets a job whose own submit may still be refused
	RowLast        bool // the row is written after the script
	RefusesAlways  bool // a submit is refused although its row could not be taken back
	KeepsRows      bool // an outcome does not delete the row
	KillsNothing   bool // a row does not get to know that its job was killed
	FoundIsNotOwed bool // a row whose job is in Redis stays its submit's, and is not restored to the next incarnation
	KeepsPayloads  bool // a replaced payload is not in the row of its job
	GivesNothing   bool // rows of an incarnation that is over are not restored
}

// keyHeld is an Idempotency-Key in SQL.
type keyHeld struct {
	body    string
	id      job.ID
	expires time.Time
}

// These are the places where the process of a submit stops.
const (
	beforeScript   = "before the script"
	beforeTakeBack = "before the take back"
)

// These events end the stop of a process before its time is over.
const (
	atTheLook = "the giver looks" // the reconciler has found the row
	atTheRead = "the giver reads" // the reconciler is about to restore the job
)

// sqlLate is a transaction of the journal that commits after its caller gave up.
const sqlLate = "SQL executed late"

// ofJournal says whether a call is one of the transactions of the journal, of batches or of flows that may commit after
// their callers gave up.
func (c *call) ofJournal() bool {
	switch c.name {
	case "sql submit", "sql take back", "sql replace", "sql batch", "sql seal", "sql flow", "sql cancel flow",
		"sql cancel waiting":
		return true
	}
	return false
}

// writeSubmit is the transaction of a submit: it writes the row, and the key unless another job holds it. It
// returns the other job if there is one.
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
	if r.Batch != "" {
		if err := w.join(r); err != nil {
			if h := d.keys[r.Idempotency.Key]; h != nil && h.id == r.ID {
				delete(d.keys, r.Idempotency.Key)
			}
			return job.KeyHolder{Refused: err}
		}
	}
	if d.rows[r.ID] == nil {
		d.rows[r.ID] = &row{JournalRow: *r, recorded: now}
	}
	d.written[r.ID] = now
	return job.KeyHolder{}
}

// takeBack is the transaction that removes a row, and its key, if the row is still its submit's. It says whether
// the row is gone.
func (w *World) takeBack(r *job.JournalRow) (gone bool) {
	d := w.sql
	is := d.rows[r.ID]
	if is == nil || !is.untaken(&w.Journal) && !w.Journal.TakesAnyRow {
		return false
	}
	delete(d.rows, r.ID)
	w.leave(r)
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

// replaceRow is the transaction that gives the row of a job the payload of the submit that replaced it.
func (p *process) replaceRow(r *job.JournalRow, reply *job.SubmitReply) error {
	ctx, cancel := context.WithTimeout(context.Background(), backTime)
	defer cancel()
	_, err := ask(ctx, p, "sql replace", string(r.ID)+" "+string(reply.First), func(d *database) (bool, error) {
		if is := d.rows[reply.First]; is != nil && is.Generation == 1 {
			p.world.shadow.overtakes(inputOf(string(is.Payload)), r.ID)
			is.Tier, is.Priority, is.Payload, is.Options = r.Tier, r.Priority, r.Payload, r.Options
			is.MaxRetries, is.RunAt, is.Submitting = r.MaxRetries, reply.Due, false
		}
		return true, nil
	})
	return err
}

// untaken says whether the row is still its submit's, so that the submit may take it back.
func (r *row) untaken(bugs *JournalBugs) bool {
	return r.Submitting && (r.Incarnation == "" || bugs.FoundIsNotOwed)
}

// sight is an event: the reconciler has done something with a row.
type sight struct {
	id   job.ID
	what string
}

// journaled checks that SQL has a row or an outcome of every job that Redis has, or had when it lost it.
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

// oneEach checks that a refused submit leaves no row and no key, and that Redis gets a second job under one key
// only after the key's life.
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
