package admission

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Journal keeps accepted jobs where Redis' loss does not reach them. A submit is written there first, with its
// Idempotency-Key, so it is SQL that decides whose a key is.
type Journal interface {
	// Submit writes rows of jobs that Redis is about to be asked for, and says of each which other job has its key: such a
	// row is not written. After job.ErrUnavailable none is written, after any other error some may be.
	Submit(ctx context.Context, rows []job.JournalRow) ([]job.KeyHolder, error)
	// Submitted hears that Redis has jobs: their ids, when they arrived and are due, and the life of Redis that was known
	// before it was asked. It does not wait for SQL.
	Submitted(rows []job.JournalRow)
	// TakeBack removes the rows of submits that Redis refused, and their keys. false: the row is not the submit's any
	// more, Redis has its job or is given it.
	TakeBack(ctx context.Context, rows []job.JournalRow) ([]bool, error)
	// Holder is the job that a key stands for. It changes nothing.
	Holder(ctx context.Context, key job.Idempotency) (job.KeyHolder, error)
}

const (
	// rowsAtOnce is how many submits of a batch are written before Redis is asked for the first of them.
	rowsAtOnce = 500
	// backTimeout bounds TakeBack: with patience it leaves a submit within its 2 s.
	backTimeout = 400 * time.Millisecond
)

// row is an entry as the journal keeps it. It arrives now as far as this process knows; Submitted tells the script's
// own time.
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
	// Read before the script is sent: a Redis that loses what the script does has another one afterwards.
	e.run = a.run(e.home.partition)
	return row
}

// due is when a submission that arrives at a time is to run; the zero time = at once.
func due(s *job.Submission, arrived time.Time) time.Time {
	if s.RunAt.IsZero() && s.Delay > 0 {
		return arrived.Add(s.Delay)
	}
	return s.RunAt
}

// submitted tells the journal which entries Redis has. A job that Redis has forgotten has ended, and needs no row.
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

// journaled writes the rows of a batch's entries and returns those that Redis is to be asked for now. The others have
// their results, or are to be tried again: a submit meets another one's key whose own fate is not decided yet.
func (f *flight) journaled(ctx context.Context, now []int) (ready []int) {
	var rows []job.JournalRow
	var of []int
	for _, i := range now {
		if f.refusedLately(ctx, i) {
			f.a.room.give()
			continue
		}
		rows, of = append(rows, f.a.row(f.entries[i])), append(of, i)
	}
	if len(rows) == 0 {
		return nil
	}
	held, err := f.a.journal.Submit(ctx, rows)
	for n, i := range of {
		e := f.entries[i]
		switch {
		case errors.Is(err, job.ErrUnavailable):
			f.results[i] = Result{Err: refuse(job.ErrUnhealthy, 0)}
		case err != nil:
			f.results[i] = f.a.told(&e.submission, job.Accepted{ID: e.submission.ID}, job.ErrFateUnknown)
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
	return ready
}

// refusedLately refuses a submit like one that its partition had no room for a moment ago, so that a flood does not
// reach SQL. One whose key stands for a job is no new job.
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
// whether it is accepted; if Redis does not have it yet, the repeat is tried again.
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

// takeBack removes the rows of entries that Redis certainly does not have. One whose row stays is in doubt: Redis is
// given its job, or was.
func (f *flight) takeBack(refused []int) {
	if len(refused) == 0 {
		return
	}
	rows := make([]job.JournalRow, len(refused))
	for n, i := range refused {
		s := &f.entries[i].submission
		rows[n] = job.JournalRow{Job: job.Job{ID: s.ID}, Idempotency: s.Idempotency}
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
