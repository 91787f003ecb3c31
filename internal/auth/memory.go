package auth

import (
	"container/list"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	maxKnown = 10_000 // buckets; beyond that, the least recently used ones are forgotten
	// A refusal that holds for longer than shortest is repeated without a call, for at most longest: the bucket may be
	// changed or lost meanwhile.
	shortest = 5 * time.Millisecond
	longest  = time.Second
	maxRoom  = float64(100 * 365 * 24 * time.Hour)
)

// memory holds what one process knows about buckets: its own count of them, and the store's refusals. Because of
// it, a flood from one caller costs the store a few calls per second instead of one per request. Limiter.mu guards
// it.
type memory struct {
	items map[string]*list.Element
	order *list.List // of *known, the most recently used first
}

type known struct {
	bucket string
	empty  time.Time // when the bucket is empty again, by this process's own count

	refused job.RateAsk
	answer  job.RateAnswer
	at      time.Time // the earliest time at which the answer was given
	until   time.Time // until then the answer is repeated
}

func newMemory() memory { return memory{items: map[string]*list.Element{}, order: list.New()} }

// get returns the entry of a bucket; it makes one if there is none.
func (m *memory) get(bucket string) *known {
	if item := m.items[bucket]; item != nil {
		m.order.MoveToFront(item)
		return item.Value.(*known)
	}
	if m.order.Len() >= maxKnown {
		oldest := m.order.Back()
		delete(m.items, m.order.Remove(oldest).(*known).bucket)
	}
	k := &known{bucket: bucket}
	m.items[bucket] = m.order.PushFront(k)
	return k
}

// take counts a bucket with GCRA on this process's clock, as lua/rate.lua does on Redis' clock.
func (m *memory) take(ask job.RateAsk, now time.Time) job.RateAnswer {
	k := m.get(ask.Bucket)
	period := min(float64(time.Second)/ask.Rate, maxRoom/float64(ask.Burst))
	room, cost := period*float64(ask.Burst), period*float64(ask.N)
	ahead := min(max(float64(k.empty.Sub(now)), 0), room)
	answer := job.RateAnswer{OK: ahead+cost <= room+float64(time.Microsecond)}
	if answer.OK {
		ahead += cost
		k.empty = now.Add(time.Duration(ahead))
	} else if answer.RetryIn = time.Duration(ahead + cost - room); ask.N > ask.Burst {
		answer.RetryIn = job.Never
	}
	answer.Remaining, answer.Reset = int(max(room-ahead+float64(time.Microsecond), 0)/period), time.Duration(ahead)
	return answer
}

// learn stores a refusal, to be repeated until its RetryIn is over, at most for the time longest. It counts from
// sent, so that the repeats end no later than the refusal itself.
func (m *memory) learn(ask job.RateAsk, answer job.RateAnswer, sent time.Time) {
	if answer.OK || answer.RetryIn < shortest || answer.RetryIn == job.Never {
		return
	}
	k := m.get(ask.Bucket)
	k.refused, k.answer, k.at, k.until = ask, answer, sent, sent.Add(min(answer.RetryIn, longest))
}

// refuses returns the refusal that the store would give to an ask, and whether that is known. A bucket that refused
// an ask refuses every ask for as much or more until the time that it named. An ask for less, or with another rate
// or burst, has to go to the store.
func (m *memory) refuses(ask job.RateAsk, now time.Time) (job.RateAnswer, bool) {
	item := m.items[ask.Bucket]
	if item == nil {
		return job.RateAnswer{}, false
	}
	k := item.Value.(*known)
	if !now.Before(k.until) || ask.N < k.refused.N || ask.Rate != k.refused.Rate || ask.Burst != k.refused.Burst {
		return job.RateAnswer{}, false
	}
	m.order.MoveToFront(item)
	since, answer := now.Sub(k.at), k.answer
	answer.Reset = max(answer.Reset-since, 0)
	answer.RetryIn += time.Duration(float64(ask.N-k.refused.N)/ask.Rate*float64(time.Second)) - since
	if ask.N > ask.Burst {
		answer.RetryIn = job.Never
	}
	return answer, true
}
