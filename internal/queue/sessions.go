package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The sessions of browsers that logged in with an API key: one sorted set per key, of hashes, scored by when each ends.

// MaxSessions is how many sessions one API key has at most: another one ends those that end soonest.
const MaxSessions = 100

// AddSession keeps the session with this hash until then. It removes those of the key that have ended, and of the
// others as many as are beyond MaxSessions. The sessions of a key are given the same time, so that the newest one is
// the last to end. Doing it twice changes nothing.
func (q *Queue) AddSession(ctx context.Context, keyID, hash string, until time.Time) error {
	key := sessionsKey(keyID)
	now := q.now()
	var beyond *redis.StringSliceCmd
	_, err := q.redis.Main.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now.UnixMilli(), 10))
		pipe.ZAdd(ctx, key, redis.Z{Score: float64(until.UnixMilli()), Member: hash})
		pipe.PExpire(ctx, key, until.Sub(now))
		beyond = pipe.ZRange(ctx, key, 0, -MaxSessions-1)
		return nil
	})
	if err != nil {
		return classify("add a session", err)
	}
	if len(beyond.Val()) == 0 {
		return nil
	}
	return q.EndSession(ctx, keyID, beyond.Val()...)
}

// Sessions says until when each of these hashes is a session of the key; the zero time = it is none.
func (q *Queue) Sessions(ctx context.Context, keyID string, hashes ...string) ([]time.Time, error) {
	scores, err := q.redis.Read.ZMScore(ctx, sessionsKey(keyID), hashes...).Result()
	if err != nil {
		return nil, classify("look for a session", err)
	}
	ends := make([]time.Time, len(hashes))
	now := q.now()
	for i, score := range scores {
		if until := time.UnixMilli(int64(score)); score > 0 && now.Before(until) {
			ends[i] = until
		}
	}
	return ends, nil
}

// EndSession ends the sessions with these hashes. Doing it twice changes nothing.
func (q *Queue) EndSession(ctx context.Context, keyID string, hashes ...string) error {
	members := make([]any, len(hashes))
	for i, hash := range hashes {
		members[i] = hash
	}
	if err := q.redis.Main.ZRem(ctx, sessionsKey(keyID), members...).Err(); err != nil {
		return classify("end a session", err)
	}
	return nil
}

// Instance names the Redis data that all processes of this cluster share, in 8 characters that tell nothing of it. Two
// clusters on one host have different ones; a FLUSHALL changes it. It is "" before the set-up was read.
func (v *View) Instance() string {
	s := v.sealing.Load()
	if s == nil {
		return ""
	}
	sum := sha256.Sum256([]byte("instance " + s.stored))
	return hex.EncodeToString(sum[:4])
}
