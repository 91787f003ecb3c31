package auth

import (
	"container/list"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	maxKnown = 10_000 // buckets; of more, those that were asked for longest ago are forgotten
	// A refusal is repeated without a call if it stands for longer than shortest, and for at most longest: a bucket may be
	// changed, or lost.
	shortest = 5 * time.Millisecond
	longest  = time.Second
	maxRoom  = float64(100 * 365 * 24 * time.Hour)
)

// memory is what one process knows of buckets by itself: how it counts them, and what the store has refused. A flood of
// one caller thus costs the store some calls a second, not one per request.
type memory struct {
	items map[string]*list.Element
	order *list.List // of *known; what was asked for last is in front
}

type known struct {
	bucket string
	empty  time.Time // by this process' own count

	refused job.RateAsk
	answer  job.RateAnswer
	at      time.Time // of the answer, at the earliest
	until   time.Time // it is repeated
}

func newMemory() memory { return memory{items: map[string]*list.Element{}, order: list.New()} }

// get finds or makes what is known of a bucket.
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

// take is GCRA on the process' own clock, as lua/rate.lua has it on Redis'.
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

// learn keeps a refusal. The store made it at sent or later, so that what is repeated never stands for longer than what
// was said.
func (m *memory) learn(ask job.RateAsk, answer job.RateAnswer, sent time.Time) {
	if answer.OK || answer.RetryIn < shortest || answer.RetryIn == job.Never {
		return
	}
	k := m.get(ask.Bucket)
	k.refused, k.answer, k.at, k.until = ask, answer, sent, sent.Add(min(answer.RetryIn, longest))
}

// refuses says whether the store would refuse, for all that this process knows: a bucket takes nothing before the time
// that it named, nor what is more than that. Who asks for less, or by another rate, has to ask the store.
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
