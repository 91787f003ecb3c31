package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Journal stores accepted jobs where they survive the loss of Redis. A submit is written there first, with its
// Idempotency-Key, so SQL decides which job has a key.
type Journal interface {
	// Submit writes rows of jobs that Redis will be asked for next. For each row it returns the other job that has
	// the row's key, if any, and whether the row's batch refuses the job; such a row is not written. After
	// job.ErrUnavailable no row is written, after any other error some may be.
	Submit(ctx context.Context, rows []job.JournalRow) ([]job.KeyHolder, error)
	// Submitted stores that Redis has jobs: their ids, when they arrived and are due, and the incarnation that was
	// known before Redis was asked. It does not wait for SQL.
	Submitted(rows []job.JournalRow)
	// TakeBack removes the rows of submits that Redis refused, their keys, and their places in their batches. false
	// means that the submit can no longer take the row back: Redis has its job or will get it.
	TakeBack(ctx context.Context, rows []job.JournalRow) ([]bool, error)
	// Replace gives rows of jobs that were never claimed the payload, the type, the options, the retries, the trace id
	// and the due time of other submits. A job that has no row has ended.
	Replace(ctx context.Context, rows []job.JournalRow) error
	// Holder returns the job that a key stands for. It changes nothing.
	Holder(ctx context.Context, key job.Idempotency) (job.KeyHolder, error)
}

const (
	// rowsAtOnce is how many submits of a batch are written to the journal before Redis is asked for the first of
	// them.
	rowsAtOnce = 500
	// backTimeout bounds TakeBack: together with patience it keeps a submit within its 2 s.
	backTimeout = 400 * time.Millisecond
)

// journals says whether a submit has a row in the journal. A member of a batch always has one: SQL counts the members.
func (a *Admission) journals(s *job.Submission) bool {
	return a.all || a.journal != nil && s.Batch != ""
}

// journals says whether any of the submissions has a row in the journal.
func (f *flight) journals() bool {
	for i := range f.batch {
		if f.a.journals(&f.batch[i]) {
			return true
		}
	}
	return false
}

// row returns the journal row of an entry. Its arrival is now as far as this process knows; Submitted later gives
// the script's own time.
func (a *Admission) row(e *entry) job.JournalRow {
	s := &e.submission
	row := job.JournalRow{
		Job: job.Job{
			ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner, TraceID: s.TraceID, Options: s.Options,
			Payload: s.Payload, MaxRetries: s.MaxRetries, ArrivedAt: a.now(), RunAt: s.RunAt,
		},
		Priority: e.priority, Idempotency: s.Idempotency, Submitting: true,
	}
	row.RunAt = due(s, row.ArrivedAt)
	// Read before the script is sent: a Redis that loses the script's effect has another incarnation afterwards.
	e.run = a.run(e.home.partition)
	return row
}

// due returns when a submission that arrives at a time is due; the zero time means at once.
func due(s *job.Submission, arrived time.Time) time.Time {
	if s.RunAt.IsZero() && s.Delay > 0 {
		return arrived.Add(s.Delay)
	}
	return s.RunAt
}

// submitted tells the journal which entries Redis has. A duplicate whose job Redis has forgotten has ended, and
// needs no row.
func (f *flight) submitted(accepted []int) {
	var rows []job.JournalRow
	for _, i := range accepted {
		e := f.entries[i]
		if e.arrived.IsZero() {
			continue
		}
		s := &e.submission
		rows = append(rows, job.JournalRow{
			Job:         job.Job{ID: s.ID, ArrivedAt: e.arrived, RunAt: due(s, e.arrived)},
			Incarnation: e.run,
		})
	}
	if len(rows) > 0 {
		f.a.journal.Submitted(rows)
	}
}

// journaled writes the rows of those entries that have one, and returns the entries that Redis is asked for now. The
// others have their results, or are tried again because the job that has their key is itself undecided.
func (f *flight) journaled(ctx context.Context, now []int) (ready []int) {
	var rows []job.JournalRow
	var of []int
	for _, i := range now {
		if !f.a.journals(&f.entries[i].submission) {
			ready = append(ready, i)
			continue
		}
		if f.refusedLately(ctx, i) {
			f.a.room.give()
			continue
		}
		rows, of = append(rows, f.a.row(f.entries[i])), append(of, i)
	}
	if len(rows) == 0 {
		return ready
	}
	held, err := f.a.journal.Submit(ctx, rows)
	for n, i := range of {
		e := f.entries[i]
		switch {
		case errors.Is(err, job.ErrUnavailable):
			f.results[i] = Result{Err: refuse(job.ErrUnhealthy, 0)}
		case err != nil && f.results[i].Accepted.ID != "": // an earlier try has found the job that has its key
		case err != nil:
			f.results[i] = f.a.told(&e.submission, job.Accepted{ID: e.submission.ID}, job.ErrFateUnknown)
		case held[n].Refused != nil:
			f.results[i] = Result{Err: held[n].Refused}
		case held[n].ID == "":
			ready = append(ready, i)
			continue
		default:
			f.repeats(ctx, i, held[n])
		}
		f.a.room.give()
	}
	if err != nil {
		f.a.log.Warn("the journal did not take submits", "jobs", len(rows), "err", err)
	}
	slices.SortStableFunc(ready, func(x, y int) int { // an entry of a partition beside the others of it
		return f.entries[x].home.partition - f.entries[y].home.partition
	})
	return ready
}

// refusedLately refuses a submit if its partition refused a similar one a moment ago, so that a flood does not
// reach SQL. A submit whose key stands for a job is not refused: it is a repeat.
func (f *flight) refusedLately(ctx context.Context, i int) bool {
	e := f.entries[i]
	why := e.home.lately.why(&e.submission)
	if why == nil {
		return false
	}
	if e.submission.Idempotency.Key != "" {
		if holder, err := f.a.journal.Holder(ctx, e.submission.Idempotency); err != nil || holder.ID != "" {
			return false
		}
	}
	f.results[i] = f.a.told(&e.submission, job.Accepted{}, why)
	return true
}

// repeats answers a submit whose key stands for another job. While that job's own submit is under way, Redis says
// whether the job is accepted; if Redis does not have it yet, the repeat is tried again.
func (f *flight) repeats(ctx context.Context, i int, holder job.KeyHolder) {
	switch {
	case holder.OtherBody:
		f.results[i] = Result{Err: job.ErrMismatch}
		return
	case holder.Submitting:
		if known, err := f.a.known(ctx, holder.ID); err != nil || !known {
			f.results[i] = Result{Accepted: job.Accepted{ID: holder.ID}, Err: job.ErrFateUnknown} // if patience ends here
			f.again = append(f.again, i)
			return
		}
	}
	f.results[i] = Result{Accepted: job.Accepted{ID: holder.ID, Replayed: true}}
}

// takeBack removes the rows of entries that Redis certainly does not have. An entry whose row stays is in doubt:
// Redis has its job or will get it.
func (f *flight) takeBack(refused []int) {
	if len(refused) == 0 {
		return
	}
	rows := make([]job.JournalRow, len(refused))
	for n, i := range refused {
		s := &f.entries[i].submission
		rows[n] = job.JournalRow{Job: job.Job{ID: s.ID, Options: job.Options{Batch: s.Batch}}, Idempotency: s.Idempotency}
	}
	ctx, cancel := context.WithTimeout(context.Background(), backTimeout)
	defer cancel()
	gone, err := f.a.journal.TakeBack(ctx, rows)
	if err != nil {
		f.a.log.Warn("refused submits stay in the journal: they are in doubt", "jobs", len(rows), "err", err)
	}
	for n, i := range refused {
		if err == nil && gone[n] {
			continue
		}
		e := f.entries[i]
		e.err, e.first, e.moves = job.ErrFateUnknown, "", false
	}
}

// replaced gives the rows of jobs the payloads that Redis has given to the jobs, and returns the entries whose own rows
// go now. Where a job's row may have its old payload, the entry's own row stays, and is in doubt: Redis will get it as
// a job of its own.
func (f *flight) replaced(refused []int) (gone []int) {
	var rows []job.JournalRow
	var of []int
	for _, i := range refused {
		e := f.entries[i]
		if e.answer != job.Replaced {
			gone = append(gone, i)
			continue
		}
		row := f.a.row(e)
		row.ID, row.RunAt = e.first, e.due
		rows, of = append(rows, row), append(of, i)
	}
	if len(rows) == 0 {
		return gone
	}
	ctx, cancel := context.WithTimeout(context.Background(), backTimeout)
	defer cancel()
	if err := f.a.journal.Replace(ctx, rows); err != nil {
		f.a.log.Warn("the journal did not take replaced payloads: they are in doubt", "jobs", len(rows), "err", err)
		for _, i := range of {
			f.entries[i].err, f.entries[i].first = job.ErrFateUnknown, ""
		}
		return gone
	}
	return append(gone, of...)
}
