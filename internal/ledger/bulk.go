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

// MaxBulk bounds one bulk requeue.
const MaxBulk = 10_000

const bulkSlack = 30 * time.Second

var errEnough = errors.New("enough")

// RequeueDead promises new lives to at most limit (1 to MaxBulk) of the dead letters that a filter takes, the newest
// first, no faster than Options.Rate. matched is how many the filter takes at the beginning, counted to a bound; with
// dryRun that is all it does. requeued counts promises: what Redis cannot take now comes later. What stops it half-way
// (ctx, a store) is an error only if nothing is known to be requeued; a partial result is an answer. After
// job.ErrAmbiguous some may have been promised.
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
	// Twice what the rate asks for, and a while for the stores: a hanging one does not hold it for ever.
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

// bulk gathers dead letters and promises them batch by batch.
type bulk struct {
	ledger  *Ledger
	request job.Request
	size    int // of a batch
	left    int // until the limit
	batch   []job.JournalRow
}

// add returns errEnough at the limit.
func (b *bulk) add(ctx context.Context, d job.DeadLetter) error {
	if !b.ledger.served(&d) {
		return nil // a promise that cannot be kept is not made
	}
	b.batch = append(b.batch, d.Next(b.ledger.priority(d.Tier)))
	if len(b.batch) < min(b.size, b.left) {
		return nil
	}
	return b.flush(ctx)
}

// flush promises what was gathered, and gives it its new life. That Redis does not answer ends the whole: nothing more
// is promised then.
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

// pace lets so many a second through, in the order they come.
type pace struct {
	rate int // per second
	mu   sync.Mutex
	next time.Time // when the next ones may go
}

// burst is how many go together: a tenth of a second's worth, at most one script call.
func (p *pace) burst() int { return min(max(p.rate/10, 1), job.MaxBatch) }

// wait returns when n more may go, or with ctx's error.
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
