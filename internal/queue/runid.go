package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// epochField of the configuration names the data set: whoever finds none, because the server is new or was flushed, makes one up.
const epochField = "epoch"

// RunID names the present life of the data in Redis: another one after each restart or failover, whatever it kept, and after a FLUSHALL. A
// server that does not say when it restarts is known by its data alone. The embedded server lives as long as this process.
func (q *Queue) RunID(ctx context.Context) (string, error) {
	if q.opts.Embedded {
		return q.opts.Nonce, nil
	}
	epoch, err := q.epoch(ctx)
	if err != nil {
		return "", classify("run id", err)
	}
	info, err := q.redis.Main.InfoMap(ctx, "server").Result()
	if err != nil && !replied(err) {
		return "", classify("run id", err)
	}
	run := info["Server"]["run_id"]
	if run == "" {
		run = "unknown"
	}
	id := run + "." + epoch
	q.run.Store(&id)
	return id, nil
}

// KnownRun is the RunID as it was last read here; "" before the first time.
func (q *Queue) KnownRun() string {
	if q.opts.Embedded {
		return q.opts.Nonce
	}
	if run := q.run.Load(); run != nil {
		return *run
	}
	return ""
}

func (q *Queue) epoch(ctx context.Context) (string, error) {
	epoch, err := q.redis.Main.HGet(ctx, configKey, epochField).Result()
	if !errors.Is(err, redis.Nil) {
		return epoch, err
	}
	if err := q.redis.Main.HSetNX(ctx, configKey, epochField, rand.Text()[:12]).Err(); err != nil {
		return "", err
	}
	return q.redis.Main.HGet(ctx, configKey, epochField).Result()
}

// replied says that the server answered, if only that this user may not ask: INFO and CONFIG may be forbidden, and the in-memory
// server has no such section.
func replied(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && (strings.HasPrefix(answer.Error(), "NOPERM") || strings.HasPrefix(answer.Error(), "section"))
}

// Lease asks to be the one process that does something for the next ttl. It saves work and decides nothing: two that believe they have
// it do harm to nobody.
func (q *Queue) Lease(ctx context.Context, name string, ttl time.Duration) (bool, error) {
	key := leasePrefix + name
	got, err := q.redis.Main.SetNX(ctx, key, q.opts.Nonce, ttl).Result()
	if err != nil || got {
		return got, classifyNil("lease", err)
	}
	holder, err := q.redis.Main.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil // it ran out just now: the next time
	case err != nil:
		return false, classify("lease", err)
	case holder != q.opts.Nonce:
		return false, nil
	}
	return true, classifyNil("lease", q.redis.Main.PExpire(ctx, key, ttl).Err())
}

func classifyNil(verb string, err error) error {
	if err == nil {
		return nil
	}
	return classify(verb, err)
}
