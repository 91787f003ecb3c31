package queue

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file counts the leases of API keys that may hold only so many at once, over all processes: per API key a sorted
// set of seats, scored by the time at which each is free again unless it is set once more.
//
// No transaction is needed: each caller adds its seats first and counts then, so that the last to add counts the seats
// of all others.

// seatsKept is how long Redis keeps the seats of a key that sets none.
const seatsKept = 24 * time.Hour

// TakeSeats takes seats with these names for an API key that has most seats, and returns how many it got: the first
// ones. Of several calls at once none gets a seat beyond most, and one may get fewer than there would be. After an
// error the seats may be taken; they are free when lasts is over. A repeat of the call takes the same seats.
func (q *Queue) TakeSeats(ctx context.Context, keyID string, names []string, most int, lasts time.Duration) (int,
	error) {
	const verb = "take seats"
	now := q.now()
	taken := make([]redis.Z, len(names))
	for i, name := range names {
		taken[i] = redis.Z{Score: float64(now.Add(lasts).UnixMilli()), Member: name}
	}
	key := seatsKey(keyID)
	var count *redis.IntCmd
	_, err := q.redis.Main.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now.UnixMilli(), 10))
		pipe.ZAdd(ctx, key, taken...)
		pipe.PExpire(ctx, key, seatsKept)
		count = pipe.ZCard(ctx, key)
		return nil
	})
	if err != nil {
		return 0, classify(verb, err)
	}
	got := len(names) - min(max(int(count.Val())-most, 0), len(names))
	if got == len(names) {
		return got, nil
	}
	return got, q.SetSeats(ctx, keyID, nil, names[got:])
}

// SetSeats makes an API key hold these seats, whether or not it held them, and gives up the seats of the names in left.
// A repeat of the call changes nothing.
func (q *Queue) SetSeats(ctx context.Context, keyID string, held []job.Seat, left []string) error {
	if len(held)+len(left) == 0 {
		return nil
	}
	now := q.now()
	seats, names := make([]redis.Z, len(held)), make([]any, len(left))
	for i, seat := range held {
		seats[i] = redis.Z{Score: float64(now.Add(seat.Lasts).UnixMilli()), Member: seat.Name}
	}
	for i, name := range left {
		names[i] = name
	}
	key := seatsKey(keyID)
	_, err := q.redis.Main.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if len(names) > 0 {
			pipe.ZRem(ctx, key, names...)
		}
		if len(seats) > 0 {
			pipe.ZAdd(ctx, key, seats...)
			pipe.PExpire(ctx, key, seatsKept)
		}
		return nil
	})
	return classifyNil("set seats", err)
}
