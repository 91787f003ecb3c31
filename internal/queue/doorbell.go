package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wait returns when a partition's doorbell rings, or after a second. It holds a connection of its own while it
// waits.
func (q *Queue) Wait(ctx context.Context, partition int) error {
	ctx, cancel := context.WithTimeout(ctx, 2500*time.Millisecond) // a server that hangs must not hold the caller
	defer cancel()
	err := q.redis.Bell.BLPop(ctx, time.Second, Key(partition, "doorbell")).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return classify("doorbell", err)
	}
	return nil
}

// Ring puts back a token for which the caller had no free slot, so that another process is woken. The doorbell
// holds at most one token.
func (q *Queue) Ring(ctx context.Context, partition int) error {
	key := Key(partition, "doorbell")
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
