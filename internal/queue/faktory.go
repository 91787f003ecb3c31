package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file keeps what Faktory clients need beside the jobs: the leases that each of their workers holds, because such
// a worker names a job by its own id and knows no lease, and the totals that they show.

// heldFor is how long the leases of a worker are kept after the last one that it got.
const heldFor = 24 * time.Hour

// HoldLeases adds leases to those that a Faktory worker holds. The call may be repeated.
func (q *Queue) HoldLeases(ctx context.Context, key, worker string, held []job.HeldLease) error {
	fields := make([]any, 0, 2*len(held))
	for _, h := range held {
		fields = append(fields, h.Field, h.Text())
	}
	name := q.heldKey(key, worker)
	_, err := q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, name, fields...)
		p.PExpire(ctx, name, heldFor)
		return nil
	})
	if err != nil {
		return classify("hold leases", err)
	}
	return nil
}

// HeldLeases returns the leases that a Faktory worker holds, in no order. Some may be lost meanwhile.
func (q *Queue) HeldLeases(ctx context.Context, key, worker string) ([]job.HeldLease, error) {
	all, err := q.redis.Main.HGetAll(ctx, q.heldKey(key, worker)).Result()
	if err != nil {
		return nil, classify("held leases", err)
	}
	held := make([]job.HeldLease, 0, len(all))
	for field, text := range all {
		if h, ok := job.ReadHeldLease(field, text); ok {
			held = append(held, h)
		}
	}
	return held, nil
}

// DropLeases removes leases from those that their workers hold. The call may be repeated.
func (q *Queue) DropLeases(ctx context.Context, refs []job.HeldRef) error {
	fields := map[string][]string{} // by the key of their worker
	for _, r := range refs {
		name := q.heldKey(r.Key, r.Worker)
		fields[name] = append(fields[name], r.Field)
	}
	_, err := q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
		for name, list := range fields {
			p.HDel(ctx, name, list...)
		}
		return nil
	})
	if err != nil {
		return classify("drop leases", err)
	}
	return nil
}

// The fields of what Faktory clients are told of the cluster.
const (
	processedField = "processed"
	failuresField  = "failures"
)

// CountFaktory adds to the totals of the attempts that Faktory workers reported.
func (q *Queue) CountFaktory(ctx context.Context, processed, failures int64) error {
	_, err := q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HIncrBy(ctx, faktoryKey, processedField, processed)
		p.HIncrBy(ctx, faktoryKey, failuresField, failures)
		return nil
	})
	if err != nil {
		return classify("count", err)
	}
	return nil
}

// FaktoryTotals returns these totals.
func (q *Queue) FaktoryTotals(ctx context.Context) (processed, failures int64, err error) {
	all, err := q.redis.Main.HGetAll(ctx, faktoryKey).Result()
	if err != nil {
		return 0, 0, classify("totals", err)
	}
	processed, _ = strconv.ParseInt(all[processedField], 10, 64)
	failures, _ = strconv.ParseInt(all[failuresField], 10, 64)
	return processed, failures, nil
}

// ForgetFaktoryTotals begins them anew.
func (q *Queue) ForgetFaktoryTotals(ctx context.Context) error {
	if err := q.redis.Main.Del(ctx, faktoryKey).Err(); err != nil {
		return classify("forget totals", err)
	}
	return nil
}

// QueueCounts returns how many jobs the declared queues have at this moment, by name; of a queue without jobs nothing.
func (v *View) QueueCounts(ctx context.Context) (map[string]job.QueueCount, error) {
	counts := map[string]job.QueueCount{}
	for p := range v.opts.Partitions {
		fields, err := v.redis.Main.HGetAll(ctx, Key(p, "counters")).Result()
		if err != nil {
			return nil, classify("counts", err)
		}
		l := Levels{Tiers: map[job.Tier]TierLevel{}, Queues: map[string]TierLevel{}}
		for field, text := range fields {
			n, _ := strconv.ParseInt(text, 10, 64)
			l.add(field, n)
		}
		for name, of := range l.Queues {
			sum := counts[name]
			sum.Ready, sum.Scheduled, sum.Running = sum.Ready+of.Ready, sum.Scheduled+of.Scheduled, sum.Running+of.Running
			sum.Delayed += of.Delayed
			counts[name] = sum
		}
	}
	return counts, nil
}

// OldestIn returns since when the longest waiting job of a queue is ready; the zero time if none is. Where tiers
// overlap it looks at the first 200 ready jobs of each partition only.
func (v *View) OldestIn(ctx context.Context, queue string) (oldest time.Time, err error) {
	keep := func(since time.Time) {
		if oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	bands, ok := v.bands()
	for p := range v.opts.Partitions {
		if !ok {
			err = errors.Join(err, v.oldestOfFirst(ctx, p, queue, func(_ job.Tier, since time.Time) { keep(since) }))
			continue
		}
		for _, b := range bands {
			err = errors.Join(err, v.oldestIn(ctx, p, queue, b, keep))
		}
	}
	if err != nil {
		return time.Time{}, classify("oldest", err)
	}
	return oldest, nil
}
