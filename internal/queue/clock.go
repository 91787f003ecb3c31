package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// clock is what this process knows of Redis' time, for what may be a little off (not-after stamps, runAt): readings and
// when they were taken. Everything that decides reads TIME inside a script. The servers of a cluster have a clock each:
// a stamp for a script is made by the clock that it will be held to.
type clock struct{ of []atomic.Pointer[reading] } // by partition

type reading struct {
	redis time.Time
	at    time.Time     // local, monotonic: half-way between question and answer
	took  time.Duration // from question to answer
}

func (r *reading) now() time.Time { return r.redis.Add(time.Since(r.at)) }

// goodReading is how long a quick reading is better than a slower one that came later.
const goodReading = time.Minute

// better says whether a new reading takes the place of an old one. A quick one is the more exact one; but where the two
// are further apart than their questions took, a clock was set.
func (r *reading) better(old *reading) bool {
	if old == nil || r.took <= old.took || r.at.Sub(old.at) > goodReading {
		return true
	}
	apart := r.redis.Sub(old.redis) - r.at.Sub(old.at)
	return apart.Abs() > (r.took+old.took)/2+time.Millisecond
}

// notAfter is the Redis time, in ms, after which a submit sent to a partition now must do nothing any more: 30 s, below
// the smallest TTL of an ended job; a retention of 0 keeps none, so there a late second copy finds nothing to collide
// with. Before the first reading there is no limit.
func (c *clock) notAfter(partition int) string {
	return c.within(partition, time.Now(), 30*time.Second)
}

// rowsFresh is for how long what rows of SQL say of lives is believed.
const rowsFresh = 5 * time.Second

// within is the Redis time, in ms, that is so long after a time of this process' clock.
func (c *clock) within(partition int, at time.Time, long time.Duration) string {
	if partition < 0 || partition >= len(c.of) || c.of[partition].Load() == nil {
		return "9007199254740991"
	}
	r := c.of[partition].Load()
	return strconv.FormatInt(r.redis.Add(at.Sub(r.at)+long).UnixMilli(), 10)
}

// ReadClock reads Redis' TIME and keeps it for View.Now and not-after stamps. Of a cluster it reads every server's; the
// error is that of all of them, for one that answers is enough to go on.
func (q *Queue) ReadClock(ctx context.Context) (time.Time, error) {
	order, servers, err := q.inOrder(ctx)
	if len(order) > 1 { // one that hangs is not waited for
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, levelBound)
		defer cancel()
	}
	problems := make([]error, len(order))
	var asked sync.WaitGroup
	for i, server := range order {
		asked.Go(func() {
			asked := time.Now()
			now, err := server.Time(ctx).Result()
			if err != nil {
				problems[i] = err
				return
			}
			took := time.Since(asked)
			read := &reading{redis: now, at: asked.Add(took / 2), took: took}
			for _, p := range servers[server] {
				if read.better(q.clock.of[p].Load()) {
					q.clock.of[p].Store(read)
				}
			}
		})
	}
	asked.Wait()
	if len(order) == 0 || !slices.Contains(problems, nil) {
		return time.Time{}, classify("time", errors.Join(err, errors.Join(problems...)))
	}
	return q.now(), nil
}

// reread reads the clock anew after a LATE. If that fails the words still stand, and the next call is LATE again.
func (q *Queue) reread(ctx context.Context) { _, _ = q.ReadClock(ctx) }

// now is what View.Now answers.
func (s *shared) now() time.Time {
	for p := range s.clock.of {
		if r := s.clock.of[p].Load(); r != nil {
			return r.now().UTC()
		}
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
