package admission

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Journal keeps accepted jobs where Redis' loss does not reach them. Accept returns nil when every row is there to
// stay, or is not needed any more because the job has ended; after job.ErrUnavailable none is there, after any other
// error one may be. EnsureJournaled does the same for jobs that another process accepted, and for the keys under which
// they were found: it may have died before it wrote their rows. RegisterPendingKeys hears of keys before their submits
// are sent.
type Journal interface {
	RegisterPendingKeys(keys []job.KeyKept)
	Accept(ctx context.Context, rows []job.JournalRow) error
	EnsureJournaled(ctx context.Context, firsts []job.KeyKept) error
}

// Withdrawer takes back what was accepted by Redis and not by the journal.
type Withdrawer interface {
	Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error)
}

// keptTimeout bounds the journal's part of a submit, and each of the calls that take it back.
const keptTimeout = time.Second

// kept is the entries of one call that Redis has, on their way into the journal.
type kept struct {
	entries []*entry
	rows    []job.JournalRow
	replays []*entry // whose first submit's row has to be there
	firsts  []job.KeyKept
}

// note adds an entry that Redis has; false if it needs no row, because the job has ended and was forgotten: SQL has its outcome. Its key, if it has
// one, must be there as well.
func (k *kept) note(e *entry, reply job.SubmitReply) bool {
	s := &e.submission
	if reply.ArrivedAt.IsZero() && s.Idempotency.Key != "" {
		k.replay(e, s.ID)
		return true
	}
	if reply.ArrivedAt.IsZero() {
		return false
	}
	row := job.JournalRow{
		Job: job.Job{
			ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner, TraceID: s.TraceID, Options: s.Options, Payload: s.Payload,
			MaxRetries: s.MaxRetries, ArrivedAt: reply.ArrivedAt, RunAt: s.RunAt,
		},
		Priority: e.rank, Idempotency: s.Idempotency, Incarnation: e.run,
	}
	if s.RunAt.IsZero() && s.Delay > 0 {
		row.RunAt = reply.ArrivedAt.Add(s.Delay)
	}
	k.entries, k.rows = append(k.entries, e), append(k.rows, row)
	return true
}

// replay adds an entry whose Idempotency-Key is another submit's.
func (k *kept) replay(e *entry, first job.ID) {
	k.replays, k.firsts = append(k.replays, e), append(k.firsts, job.KeyKept{Idempotency: e.submission.Idempotency, ID: first})
}

func (k *kept) empty() bool { return len(k.entries) == 0 && len(k.replays) == 0 }

// keep writes the entries' rows and answers them: only what is in both stores is accepted.
func (c *committer) keep(k *kept) {
	ctx, cancel := context.WithTimeout(context.Background(), keptTimeout)
	defer cancel()
	var lost, unsure error
	if len(k.rows) > 0 {
		lost = c.journal.Accept(ctx, k.rows)
	}
	if len(k.firsts) > 0 {
		unsure = c.journal.EnsureJournaled(ctx, k.firsts)
	}
	var words []job.Word
	if unsure != nil {
		c.log.Warn("the journal did not answer for repeated submits", "jobs", len(k.firsts), "err", unsure)
	}
	if lost != nil {
		words = c.cancelUnclaimed(k.entries)
		c.log.Warn("the journal did not take submits: they are taken back", "jobs", len(k.rows), "err", lost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range k.entries {
		switch {
		case lost == nil:
			c.settle(e, nil)
		case errors.Is(lost, job.ErrUnavailable) && i < len(words) && words[i] == job.WasCancelled:
			c.settle(e, refuse(job.ErrUnhealthy, 0))
		default:
			// The job runs, or a repeat has written its row, or Redis has lost the job (it may have run before that), or the row
			// may be in SQL and brings the job back to a Redis that forgets the withdrawal.
			c.settle(e, job.ErrFateUnknown)
		}
	}
	for _, e := range k.replays {
		if unsure != nil {
			c.settle(e, job.ErrFateUnknown)
			continue
		}
		c.settle(e, nil)
	}
}

// cancelUnclaimed cancels those jobs of refused submits that no worker claimed, and frees their keys. A job stays if a
// repeated submit was answered with its id. Without an answer of Redis it returns nil.
func (c *committer) cancelUnclaimed(entries []*entry) []job.Word {
	batch := make([]job.Cancellation, len(entries))
	for i, e := range entries {
		batch[i] = job.Cancellation{ID: e.submission.ID, Generation: 1, Untried: true, Once: e.submission.Idempotency.Key}
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		words, err := c.withdrawer.Cancel(ctx, c.partition, batch)
		cancel()
		if err == nil {
			return words
		}
		if !errors.Is(err, job.ErrAmbiguous) && !errors.Is(err, job.ErrUnavailable) {
			c.log.Error("submits could not be taken back", "jobs", len(batch), "err", err)
			return nil
		}
	}
	return nil
}
