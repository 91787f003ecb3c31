package auth

import (
	"context"
	"sync"

	"github.com/tierq/tierq/internal/job"
)

// stock is what this process has taken from buckets and not spent yet, by bucket: so that not every submit with an
// Idempotency-Key asks Redis. There is an entry for each API key that submits with one.
type stock struct {
	mu   sync.Mutex
	left map[string]int
}

// spend takes n from the stock: false if there is less.
func (s *stock) spend(bucket string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left[bucket] < n {
		return false
	}
	s.left[bucket] -= n
	return true
}

func (s *stock) add(bucket string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[bucket] += n
}

// What a process takes from a bucket for later: a thousandth of it, so that many processes keep little from each other.
const (
	stockMost = 100
	stockPart = 1000
)

// SpendIdempotency takes the Idempotency-Keys of n submits from those that an API key may have stand at once, over all
// processes: the limit at once, and the limit again per time that a key stands. So about the limit stand in the long
// run, and twice the limit at most. Callers without an API key are not counted: strangers have a rate, and an open
// server counts nothing. Allowance.RetryIn > 0 = it refuses them all.
func (d *Doors) SpendIdempotency(ctx context.Context, c *job.Caller, n int) job.Allowance {
	limit := d.opts.Idempotency
	if limit <= 0 || c.Key.ID == "" || d.opts.KeepIdempotency <= 0 {
		return job.Allowance{}
	}
	bucket := "idempotency:" + c.Key.ID
	if d.stock.spend(bucket, n) {
		return job.Allowance{}
	}
	more := min(stockMost, limit/stockPart)
	a := d.opts.Limiter.Take(ctx, bucket, float64(limit)/d.opts.KeepIdempotency.Seconds(), limit, n+more)
	if a.RetryIn <= 0 {
		d.stock.add(bucket, more)
	}
	return a
}
