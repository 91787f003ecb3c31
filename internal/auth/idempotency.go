package auth

import (
	"context"
	"sync"

	"github.com/tierq/tierq/internal/job"
)

// stock holds the Idempotency-Keys that this process has taken from buckets in advance and not spent yet, by
// bucket, so that not every submit with an Idempotency-Key calls Redis. It has an entry for each API key that
// submits with one.
type stock struct {
	mu   sync.Mutex
	left map[string]int
}

// spend takes n from the stock; it returns false and takes nothing if there are fewer.
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

// A process takes a thousandth of a bucket in advance, so that many processes withhold little from each other.
const (
	stockMost = 100
	stockPart = 1000
)

// SpendIdempotency charges the Idempotency-Keys of n submits to the number that an API key may have at once, over
// all processes. The bucket holds that limit, and gets the limit back during the time for which a key is stored: in
// the long run about the limit are stored, and never more than twice the limit. Callers without an API key are not
// charged: strangers have a rate, and an open server counts nothing. Allowance.RetryIn > 0 means that all n are
// refused.
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
