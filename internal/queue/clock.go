package queue

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"
)

// clock is what this process knows of Redis' time, for what may be a little off (not-after stamps, runAt): a reading and when it was taken. Everything that
// decides reads TIME inside a script.
type clock struct{ last atomic.Pointer[reading] }

type reading struct {
	redis time.Time
	at    time.Time // local, monotonic
}

// notAfter is the Redis time, in ms, after which a submit or requeue sent now must do nothing any more: 30 s, below the smallest TTL of
// an ended job; a retention of 0 keeps none, so there a late second copy finds nothing to collide with. Before the first reading there is no limit.
func (c *clock) notAfter() string {
	r := c.last.Load()
	if r == nil {
		return "9007199254740991"
	}
	return strconv.FormatInt(r.redis.Add(time.Since(r.at)+30*time.Second).UnixMilli(), 10)
}

// ReadClock reads Redis' TIME and keeps it for Now and not-after stamps.
func (q *Queue) ReadClock(ctx context.Context) (time.Time, error) {
	now, err := q.redis.Main.Time(ctx).Result()
	if err != nil {
		return time.Time{}, classify("time", err)
	}
	q.clock.last.Store(&reading{redis: now, at: time.Now()})
	return now.UTC(), nil
}

// reread reads the clock anew after a LATE. If that fails the words still stand, and the next call is LATE again.
func (q *Queue) reread(ctx context.Context) { _, _ = q.ReadClock(ctx) }

// Now is Redis' time as this process knows it: the last reading and what has passed since; before the first one the host's.
func (q *Queue) Now() time.Time {
	if r := q.clock.last.Load(); r != nil {
		return r.redis.Add(time.Since(r.at)).UTC()
	}
	return time.Now().UTC()
}

// msTime reads a script's milliseconds; "" and "0" are the zero time.
func msTime(text string) time.Time {
	ms, _ := strconv.ParseInt(text, 10, 64)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func fromMs(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
