package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// MaxBulk is the largest limit of one bulk requeue.
const MaxBulk = 10_000

const bulkSlack = 30 * time.Second

var errEnough = errors.New("enough")

// RequeueDead promises to requeue at most limit (1 to MaxBulk) of the dead letters that a filter takes, the newest
// first, no faster than Options.Rate. matched is how many letters the filter takes at the beginning, counted up to
// a bound; with dryRun that is all RequeueDead does. requeued counts promises: jobs that Redis cannot take now
// come later. If ctx or a store stops RequeueDead half-way, the error is nil and the counts are the answer,
// provided that something was requeued. After job.ErrAmbiguous some promises may have been made.
func (l *Ledger) RequeueDead(
	ctx context.Context,
	f job.Filter,
	limit int,
	dryRun bool,
	reason string,
) (matched, requeued int, err error) {
	if limit < 1 || limit > MaxBulk {
		return 0, 0, fmt.Errorf("bulk requeue: limit %d is not in 1..%d", limit, MaxBulk)
	}
	count, err := within(
		ctx,
		listPatience,
		func(ctx context.Context) (int64, error) { return l.DeadLetters.CountDead(ctx, f) },
	)
	if err != nil || dryRun || count == 0 {
		return int(count), 0, err
	}
	// The timeout is twice the time that the rate needs, and some seconds for the stores, so that a hanging store
	// does not block the call for ever.
	ctx, cancel := context.WithTimeout(ctx,
		bulkSlack+2*time.Duration(min(limit, int(count)))*time.Second/time.Duration(l.Rate))
	defer cancel()
	b := bulk{
		ledger:  l,
		request: job.Request{ID: requestKey(rand.Text()), Reason: reason},
		size:    l.pace.burst(),
		left:    limit,
	}
	err = l.DeadLetters.EachDead(ctx, f, func(d job.DeadLetter) error { return b.add(ctx, d) })
	if err == nil {
		err = b.flush(ctx)
	}
	done := limit - b.left
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err != nil && done > 0:
		l.Log.Warn("a bulk requeue stopped half-way", "requeued", done, "err", err)
		err = nil
	case err != nil:
		err = fmt.Errorf("bulk requeue: %w", err)
	}
	return int(count), done, err
}

// bulk collects dead letters and promises their requeues batch by batch.
type bulk struct {
	ledger  *Ledger
	request job.Request
	size    int // letters per batch
	left    int // promises left until the limit
	batch   []job.JournalRow
}

// add adds a dead letter, and promises the batch when it is full. It returns errEnough at the limit.
func (b *bulk) add(ctx context.Context, d job.DeadLetter) error {
	if !b.ledger.served(&d) {
		return nil // its requeue could not be carried out
	}
	b.batch = append(b.batch, d.Next(b.ledger.priority(d.Tier)))
	if len(b.batch) < min(b.size, b.left) {
		return nil
	}
	return b.flush(ctx)
}

// flush promises the requeues of the batch and gives the jobs to Redis. An error of Redis ends the bulk requeue:
// no more promises are made then.
func (b *bulk) flush(ctx context.Context) error {
	if len(b.batch) == 0 {
		return nil
	}
	if err := b.ledger.pace.wait(ctx, len(b.batch)); err != nil {
		return err
	}
	made, err := b.ledger.promiseAll(ctx, listPatience, b.batch, b.request)
	if err != nil {
		return err
	}
	var promised []job.ID
	for i, ok := range made {
		if ok {
			promised = append(promised, b.batch[i].ID)
		}
	}
	b.left -= len(promised)
	b.batch = b.batch[:0]
	if len(promised) > 0 {
		if err := b.ledger.fulfil(ctx, 2*fulfilPatience, promised); err != nil {
			return err
		}
	}
	if b.left == 0 {
		return errEnough
	}
	return nil
}

// pace lets at most rate jobs per second pass, in the order of the calls.
type pace struct {
	rate int // per second
	mu   sync.Mutex
	next time.Time // when the next jobs may pass
}

// burst is how many jobs pass together: a tenth of a second's worth, at most one script call.
func (p *pace) burst() int { return min(max(p.rate/10, 1), job.MaxBatch) }

// wait returns when n more jobs may pass, or with the error of ctx.
func (p *pace) wait(ctx context.Context, n int) error {
	p.mu.Lock()
	now := time.Now()
	at := now
	if p.next.After(now) {
		at = p.next
	}
	p.next = at.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	p.mu.Unlock()
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}
