package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// beatBound is the least time limit of a heartbeat call: the limit is the heartbeat interval, but not less than
// beatBound.
const beatBound = 500 * time.Millisecond

// beatLoop sends one partition's heartbeats until the very end of Stop: without heartbeats a drain would lose the
// leases it waits for. Each partition has its own loop, so that a partition that does not answer delays no other.
// The loops start spread over one interval.
func (p *Pool) beatLoop(partition int) {
	phase := time.NewTimer(p.cfg.HeartbeatInterval * time.Duration(partition) / time.Duration(p.cfg.Partitions))
	defer phase.Stop()
	select {
	case <-p.io.Done():
		return
	case <-phase.C:
	}
	tick := time.NewTicker(p.cfg.HeartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-p.io.Done():
			return
		case at := <-tick.C:
			p.beatLag.Store(int64(time.Since(at)))
			p.beat(partition)
		}
	}
}

// beatCalls is how many heartbeat calls of a partition run at once: as many as the heartbeats have connections,
// because further calls would time out while they wait for one.
const beatCalls = 2

// beat sends one heartbeat for every lease held in a partition, in batches, and waits for all of them.
func (p *Pool) beat(partition int) {
	due := p.toBeat(partition)
	if len(due) == 0 {
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, beatCalls)
	for batch := range slices.Chunk(due, job.MaxBatch) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			p.beatBatch(partition, batch)
		})
	}
	wg.Wait()
}

// toBeat returns a partition's leases whose last successful heartbeat is older than half an interval. A claim
// counts as a heartbeat, so short jobs need none.
func (p *Pool) toBeat(partition int) []*held {
	young := time.Now().Add(-p.cfg.HeartbeatInterval / 2)
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []*held
	for _, h := range p.held {
		if h.partition == partition && !h.settled && !h.beaten.After(young) {
			due = append(due, h)
		}
	}
	return due
}

func (p *Pool) beatBatch(partition int, batch []*held) {
	beats := make([]job.Beat, len(batch))
	for i, h := range batch {
		beats[i] = p.beatOf(h)
	}
	sent := time.Now()
	ctx, cancel := context.WithTimeout(p.io, p.beatLimit())
	defer cancel()
	words, err := p.pulse.Heartbeat(ctx, partition, beats)
	if err == nil && len(words) != len(batch) {
		err = fmt.Errorf("heartbeat: %d words for %d leases", len(words), len(batch))
	}
	p.logOutage("heartbeat", partition, err)
	if err != nil {
		return // the next round comes soon; a lease that expires before it is reclaimed by the watch
	}
	for i, h := range batch {
		p.heard(h, words[i], sent, &beats[i])
	}
}

// beatLimit returns the time limit of one heartbeat call.
func (p *Pool) beatLimit() time.Duration { return max(p.cfg.HeartbeatInterval, beatBound) }

// heard acts on the answer to one heartbeat. The caller does not hold Pool.mu.
func (p *Pool) heard(h *held, word job.Word, sent time.Time, beat *job.Beat) {
	if word == job.Lost {
		p.beatLost(h)
		return
	}
	if word != job.OK && word != job.Cancel {
		p.log.Error("a heartbeat got an unknown answer", h.fields("word", word)...)
		return
	}
	h.progressSent(beat.Step)
	p.mu.Lock()
	if sent.After(h.beaten) { // a checkpoint's answer and a round's may overtake each other
		h.beaten, h.safe = sent, sent.Add(beat.Timeout)
	}
	p.mu.Unlock()
	if word == job.Cancel {
		h.ctx.cancel(handler.ErrCancelled) // the first cause stands, so repeating it has no effect
	}
}

// beatLost drops a lease that another worker may hold. It leaves a lease with an ending alone: that ending may be
// why the lease is gone, and sending the ending again gets its answer.
func (p *Pool) beatLost(h *held) {
	p.mu.Lock()
	known := h.ended
	if !known {
		p.settle(h)
	}
	p.mu.Unlock()
	if known {
		return
	}
	h.ctx.cancel(handler.ErrLeaseLost)
	p.counters.lost.Add(1)
	p.log.Warn("the lease is lost; the result of its handler is dropped", h.fields()...)
	p.cfg.Observe.Ended(&h.lease, job.EndLost, "", h.age())
}
