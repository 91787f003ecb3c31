package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// This file keeps the sessions of browsers that logged in with an API key: per API key a sorted set of hashes,
// scored by the end of each session.

// MaxSessions is how many sessions one API key has at most. A further session ends those that would end soonest.
const MaxSessions = 100

// AddSession stores the session with this hash until the given time. It removes the API key's sessions that have
// ended and, beyond MaxSessions, those that end soonest. All sessions of an API key last equally long, so the
// newest one ends last. A repeat of AddSession changes nothing.
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

// Sessions returns the end of the session of each hash; the zero time = the API key has no such session.
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

// EndSession ends the sessions with these hashes. A repeat of EndSession changes nothing.
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

// Instance returns 8 characters that identify this cluster and reveal nothing about it. Two clusters on one host have
// different ones. A Redis that lost its data keeps it if a process knows it. It is "" before the set-up was read.
func (v *View) Instance() string {
	s := v.sealing.Load()
	if s == nil {
		return ""
	}
	sum := sha256.Sum256([]byte("instance " + s.stored))
	return hex.EncodeToString(sum[:4])
}
