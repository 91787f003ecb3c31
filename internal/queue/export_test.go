package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/lua"
)

// SetClock makes the queue believe that Redis' time is t, as in a process that was stopped or has an old reading.
func (q *Queue) SetClock(t time.Time) {
	for p := range q.clock.of {
		q.clock.of[p].Store(&reading{redis: t, at: time.Now()})
	}
}

// SetSettling sets for how long rows get the previous incarnation.
func (q *Queue) SetSettling(d time.Duration) { q.settling = d }

// SetClockOf is SetClock for one partition.
func (q *Queue) SetClockOf(partition int, t time.Time) {
	q.clock.of[partition].Store(&reading{redis: t, at: time.Now()})
}

// Keys returns the KEYS of every script for a partition, by the script's name.
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

// Raw calls a script for a partition with arguments of the test's own.
func (q *Queue) Raw(ctx context.Context, name string, partition int, args []any) (any, error) {
	for _, b := range q.scripts() {
		if b.name == name {
			return q.call(ctx, q.redis.Main, *b, partition, args)
		}
	}
	return nil, errors.New("no script is called " + name)
}

// Mutate changes a script of this queue, or the prelude of all its scripts, for tests that check that a broken
// script is noticed.
func (q *Queue) Mutate(name, old, changed string) {
	broken := func(b bound) bound {
		prelude, source := lua.Prelude, lua.Own(b.name)
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
		&q.submit, &q.claim, &q.heartbeat, &q.complete, &q.fail, &q.promote, &q.expire, &q.cancel, &q.kill, &q.hasten,
		&q.restore, &q.takeOutbox, &q.acknowledge, &q.forget, &q.audit, &q.recount, &q.rate,
		&q.limitKeys, &q.log, &q.reserve, &q.unreserve,
	}
}

// These functions need no server.
var (
	Classify   = classify
	TimeToLive = timeToLive
	ReadMemory = readMemory
)

// Word returns the error of a script's text that is not a known word, or nil.
func Word(text string) error {
	_, err := (&script{name: "example"}).word(text)
	return err
}

// LivingBytes returns the limit of the bytes that living jobs keep, over all partitions and tiers; 0 = no limit.
func (q *Queue) LivingBytes() int64 { return q.livingBytes.Load() }

// SetRate sets the measured rate of jobs that end per second.
func (q *Queue) SetRate(perSecond float64) {
	q.pace.mu.Lock()
	defer q.pace.mu.Unlock()
	q.pace.perSecond = perSecond
}

// RateKey returns the key of a bucket.
func RateKey(partition int, bucket string) string { return Key(partition, "rate") + rateName(bucket) }

// Partitions returns the number of partitions.
func (q *Queue) Partitions() int { return q.opts.Partitions }
