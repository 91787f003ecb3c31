package worker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// batcher has the endings of one verb for one partition that wait to be sent. An ending that finds no sender
// starts one. Endings that arrive during a call share the next call.
type batcher struct {
	partition int
	verb      job.Verb

	mu      sync.Mutex
	waiting loop.Batcher[*held] // MaxEntries is lower while an ending in it cannot be sent
	senders int
	closed  bool
}

func newBatchers(partitions int) []batcher {
	batchers := make([]batcher, partitions*int(job.Verbs))
	for i := range batchers {
		batchers[i].partition, batchers[i].verb = i/int(job.Verbs), job.Verb(i%int(job.Verbs))
		batchers[i].waiting = loop.Batcher[*held]{
			MaxEntries: job.MaxBatch, MaxBytes: job.MaxBatchBytes, Size: func(h *held) int { return h.ending.Size() },
		}
	}
	return batchers
}

// unacked counts the endings that a partition has not answered yet, and their bytes.
type unacked struct{ endings, bytes atomic.Int64 }

// full says whether a partition has a quarter of the endings that may wait in the whole pool. Such a partition
// gets no more work, so that the others do.
func (b *unacked) full(slots int) bool {
	return b.endings.Load() > int64(4*slots+200)/4 || b.bytes.Load() > maxUnackedBytes/4
}

// deliver puts leases with a chosen ending into their batchers. An ending waits for what its handler told before. The
// caller does not hold Pool.mu.
func (p *Pool) deliver(batch ...*held) {
	for _, h := range batch {
		if h.unsent() {
			p.wg.Go(func() {
				p.flush(h)
				p.deliverNow(h)
			})
			continue
		}
		p.deliverNow(h)
	}
}

func (p *Pool) deliverNow(batch ...*held) {
	for _, h := range batch {
		p.unacked[h.partition].endings.Add(1)
		p.unacked[h.partition].bytes.Add(int64(h.weight()))
		l := &p.batchers[h.partition*int(job.Verbs)+int(h.ending.Verb)]
		l.mu.Lock()
		l.waiting.Add(h)
		// A second completion call pays only if a whole batch waits behind the first.
		second := l.verb == job.Completes && l.senders == 1 && l.waiting.Len() >= job.MaxBatch
		if !l.closed && (l.senders == 0 || second) {
			l.senders++
			p.wg.Go(func() { p.sendLoop(l) })
		}
		l.mu.Unlock()
	}
}

// sendLoop sends endings until the batcher is empty. Endings that were not answered go back into the batcher.
func (p *Pool) sendLoop(l *batcher) {
	s := sender{pool: p, batcher: l}
	slow := growing{base: 50 * time.Millisecond, cap: time.Second}
	for {
		runtime.Gosched() // handlers that are about to return can share this call
		if s.batch = l.next(s.batch); len(s.batch) == 0 {
			return
		}
		replies, err := s.send(p.io)
		p.logOutage(l.verb.String(), l.partition, err)
		if err == nil {
			b := &p.unacked[l.partition]
			b.endings.Add(-int64(len(s.batch)))
			for _, h := range s.batch {
				b.bytes.Add(-int64(h.weight()))
			}
			p.answered(s.batch, replies)
			l.sent()
			slow.reset()
			continue
		}
		l.putBack(s.batch, outage(err))
		if p.quiet.Err() != nil {
			slow.cap = 100 * time.Millisecond // the drain waits for these endings
		}
		if !slow.pause(p.io) {
			l.leave()
			return
		}
	}
}

// next takes the endings for one call and reuses the memory of the previous batch. After an empty batch the sender
// counts as gone.
func (l *batcher) next(batch []*held) []*held {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch = l.waiting.Next(batch, nil)
	if len(batch) == 0 {
		l.senders--
	}
	return batch
}

// putBack puts an unanswered batch back; the order of endings does not matter. If the store did answer, an ending
// in the batch may be the cause of the error: smaller calls isolate it, and the other endings are sent.
func (l *batcher) putBack(batch []*held, outage bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Add(batch...)
	if !outage {
		l.waiting.MaxEntries = max(len(batch)/2, 1)
	}
}

func (l *batcher) sent() {
	l.mu.Lock()
	l.waiting.MaxEntries = min(l.waiting.MaxEntries*2, job.MaxBatch)
	l.mu.Unlock()
}

func (l *batcher) leave() {
	l.mu.Lock()
	l.senders--
	l.mu.Unlock()
}

func (l *batcher) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}
