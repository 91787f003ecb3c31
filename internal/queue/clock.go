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

// clock holds this process' readings of Redis' time, one per partition, because each server of a cluster has its
// own clock. Only times that may be slightly wrong come from it (not-after stamps, runAt); every decision reads
// TIME inside a script. A stamp for a script comes from the clock of the server that runs the script.
type clock struct{ of []atomic.Pointer[reading] } // by partition

type reading struct {
	redis time.Time
	at    time.Time     // local, monotonic: half-way between question and answer
	took  time.Duration // from question to answer
}

func (r *reading) now() time.Time { return r.redis.Add(time.Since(r.at)) }

// drift is how much two clocks may move apart in a second, as NTP's daemons and hardware promise with room to spare.
const drift = 200 * time.Microsecond

// better says whether the reading r replaces an old one. Half of its round trip is how wrong a reading may be, and with
// its age the old one may be wrong by the drift too: the more exact one wins. But if the two readings differ by more
// than their round trips explain, the server's clock was set, and the new reading wins.
func (r *reading) better(old *reading) bool {
	if old == nil || r.took/2 <= old.took/2+time.Duration(r.at.Sub(old.at).Seconds()*float64(drift)) {
		return true
	}
	apart := r.redis.Sub(old.redis) - r.at.Sub(old.at)
	return apart.Abs() > (r.took+old.took)/2+time.Millisecond
}

// submitFresh is how long after it was sent a submit has an effect. That is below the smallest time to live of an ended
// job, and below job.LeastMemory, so a late second copy still finds the job. With a retention of 0 no ended job is
// kept, and a late second copy has nothing to collide with.
const submitFresh = 15 * time.Second

// claimFresh is how long after it was sent a claim for a worker elsewhere has an effect. A call that Redis executes
// when its caller has given up would hand jobs to a worker that never hears of them.
const claimFresh = 3 * time.Second

// notAfter returns the Redis time, in ms, after which a call that is sent to the partition now must have no effect.
// Before the first reading there is no limit.
func (c *clock) notAfter(partition int, fresh time.Duration) string {
	return c.within(partition, time.Now(), fresh)
}

// rowsFresh is for how long the incarnations in rows read from SQL are believed.
const rowsFresh = 5 * time.Second

// within returns the Redis time, in ms, that lies long after the local time at; without a reading, the largest
// exact number.
func (c *clock) within(partition int, at time.Time, long time.Duration) string {
	if partition < 0 || partition >= len(c.of) || c.of[partition].Load() == nil {
		return "9007199254740991"
	}
	r := c.of[partition].Load()
	return strconv.FormatInt(r.redis.Add(at.Sub(r.at)+long).UnixMilli(), 10)
}

// ReadClock reads Redis' TIME and keeps it for View.Now and for not-after stamps. In a cluster it reads every
// server's TIME, and it returns an error only if no server answers.
func (q *Queue) ReadClock(ctx context.Context) (time.Time, error) {
	order, servers, err := q.inOrder(ctx)
	if len(order) > 1 { // do not wait for a server that hangs
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

// reread reads the clock again after a LATE reply. If that fails, the next call is answered with LATE again.
func (q *Queue) reread(ctx context.Context) { _, _ = q.ReadClock(ctx) }

// now implements View.Now.
func (s *shared) now() time.Time {
	for p := range s.clock.of {
		if r := s.clock.of[p].Load(); r != nil {
			return r.now().UTC()
		}
	}
	return time.Now().UTC()
}

// msTime converts a script's milliseconds; "" and "0" are the zero time.
func msTime(text string) time.Time {
	ms, _ := strconv.ParseInt(text, 10, 64)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func fromMs(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
