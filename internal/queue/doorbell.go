package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wait returns when the doorbell of one of this process' queues rings in a partition, or after a second. It holds a
// connection of its own while it waits.
func (q *Queue) Wait(ctx context.Context, partition int) error {
	ctx, cancel := context.WithTimeout(ctx, 2500*time.Millisecond) // a server that hangs must not hold the caller
	defer cancel()
	bells := make([]string, len(q.opts.Serves))
	for i, name := range q.opts.Serves {
		bells[i] = bellKey(partition, name)
	}
	token, err := q.redis.Bell.BLPop(ctx, time.Second, bells...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return classify("doorbell", err)
	}
	if len(token) > 0 {
		q.rung[partition].Store(&token[0])
	}
	return nil
}

// Ring puts back the token that Wait took last in a partition, because the caller had no free slot for it, so that
// another process is woken. A doorbell holds at most one token. Without such a token Ring rings for the first of this
// process' queues.
func (q *Queue) Ring(ctx context.Context, partition int) error {
	key := bellKey(partition, q.opts.Serves[0])
	if rung := q.rung[partition].Load(); rung != nil {
		key = *rung
	}
	_, err := q.redis.Bell.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, key, "1")
		p.LTrim(ctx, key, 0, 0)
		return nil
	})
	if err != nil {
		return classify("ring", err)
	}
	return nil
}
