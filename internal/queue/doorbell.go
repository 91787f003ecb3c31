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
	token, err := q.ringing(ctx, partition, q.own())
	if token != "" {
		q.rung[partition].Store(&token)
	}
	return err
}

// WaitIn returns the queue, of some, whose doorbell rang in a partition; "" after a second without one. It holds a
// connection of its own while it waits.
func (q *Queue) WaitIn(ctx context.Context, partition int, queues []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
	defer cancel()
	token, err := q.ringing(ctx, partition, queues)
	if err != nil || token == "" {
		return "", err
	}
	for _, name := range queues {
		if bellKey(partition, name) == token {
			return name, nil
		}
	}
	return "", nil
}

// RingIn rings for a queue in a partition: the caller took its token, and has no use for it.
func (q *Queue) RingIn(ctx context.Context, partition int, queue string) error {
	return q.ring(ctx, bellKey(partition, queue))
}

// ringing waits for a token of some doorbells for a second, and returns the key that had it; "" = none.
func (q *Queue) ringing(ctx context.Context, partition int, queues []string) (string, error) {
	if len(queues) == 0 {
		select {
		case <-time.After(time.Second):
			return "", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	bells := make([]string, len(queues))
	for i, name := range queues {
		bells[i] = bellKey(partition, name)
	}
	token, err := q.redis.Bell.BLPop(ctx, time.Second, bells...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", classify("doorbell", err)
	}
	if len(token) == 0 {
		return "", nil
	}
	return token[0], nil
}

// Ring puts back the token that Wait took last in a partition, because the caller had no free slot for it, so that
// another process is woken. A doorbell holds at most one token. Without such a token Ring rings for the first of this
// process' queues.
func (q *Queue) Ring(ctx context.Context, partition int) error {
	key := bellKey(partition, q.opts.Serves[0])
	if rung := q.rung[partition].Load(); rung != nil {
		key = *rung
	}
	return q.ring(ctx, key)
}

func (q *Queue) ring(ctx context.Context, key string) error {
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
