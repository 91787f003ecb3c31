package queue

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/lua"
)

// SetClock makes the queue believe that Redis' time is t: the reading of a process that was stopped, or whose reading
// is old.
func (q *Queue) SetClock(t time.Time) {
	for p := range q.clock.of {
		q.clock.of[p].Store(&reading{redis: t, at: time.Now()})
	}
}

// SetSettling says for how long a life settles.
func (q *Queue) SetSettling(d time.Duration) { q.settling = d }

// SetClockOf is SetClock for what is sent to one partition.
func (q *Queue) SetClockOf(partition int, t time.Time) {
	q.clock.of[partition].Store(&reading{redis: t, at: time.Now()})
}

// Keys are what every script is called with for a partition, by the script's name.
func (q *Queue) Keys(partition int) map[string][]string {
	keys := map[string][]string{}
	for _, b := range q.scripts() {
		keys[b.name] = b.keys[partition]
	}
	for _, b := range q.reclaim {
		keys[b.name] = b.keys[partition]
	}
	return keys
}

// Mutate changes a script of this queue, or the prelude of all, for tests that want to see a broken one caught.
func (q *Queue) Mutate(name, old, changed string) {
	broken := func(b bound) bound {
		prelude, source := lua.Prelude, lua.Source(b.name)
		switch name {
		case b.name:
			source = strings.ReplaceAll(source, old, changed)
		case "prelude":
			prelude = strings.ReplaceAll(prelude, old, changed)
		}
		b.script = &script{name: b.name, header: b.header, redis: redis.NewScript(prelude + source)}
		return b
	}
	for _, b := range q.scripts() {
		*b = broken(*b)
	}
	for w, b := range q.reclaim {
		q.reclaim[w] = broken(b)
	}
}

func (q *Queue) scripts() []*bound {
	return []*bound{
		&q.submit, &q.claim, &q.heartbeat, &q.complete, &q.fail, &q.promote, &q.cancel,
		&q.restore, &q.takeOutbox, &q.acknowledge, &q.forget, &q.audit, &q.recount, &q.rate,
	}
}

// The parts that are decided without a server.
var (
	Classify   = classify
	TimeToLive = timeToLive
	ReadMemory = readMemory
)

// Word reads a script's text.
func Word(text string) error {
	_, err := (&script{name: "example"}).word(text)
	return err
}

// LivingBytes is what living jobs may keep in Redis, over all partitions and tiers; 0 = any number of bytes.
func (q *Queue) LivingBytes() int64 { return q.livingBytes.Load() }

// SetRate pretends that jobs end at this rate.
func (q *Queue) SetRate(perSecond float64) {
	q.pace.mu.Lock()
	defer q.pace.mu.Unlock()
	q.pace.perSecond = perSecond
}

// RateKey is where a bucket is kept.
func RateKey(partition int, bucket string) string { return Key(partition, "rate") + rateName(bucket) }

// Partitions is how many partitions the queue has.
func (q *Queue) Partitions() int { return q.opts.Partitions }
