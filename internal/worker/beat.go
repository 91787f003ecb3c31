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

// beatBound is the longest that a heartbeat call may hold up the next round, should the interval be shorter.
const beatBound = 500 * time.Millisecond

// beatLoop beats for one partition until the very end of Stop: a drain without heartbeats would lose the leases it is
// waiting for. Each partition has a loop, so that one which does not answer keeps nobody else's heartbeats back; they
// begin one after the other over an interval.
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

// beatCalls is how many heartbeats are under way at once: as many as they have connections, or the last ones would wait
// in vain.
const beatCalls = 2

// beat sends one heartbeat for every lease held of a partition, in batches, and waits for all of them.
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

// toBeat is a partition's leases whose last sign of life is older than half an interval: a claim is one, so short jobs
// need no heartbeat.
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
		beats[i] = job.Beat{LeaseRef: h.lease.Ref(), Timeout: p.plan(h.lease.Tier).HeartbeatTimeout}
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
		return // the next round is soon; what cannot wait for it is the watch's business
	}
	for i, h := range batch {
		p.heard(h, words[i], sent, beats[i].Timeout)
	}
}

// beatLimit is how long one call may take.
func (p *Pool) beatLimit() time.Duration { return max(p.cfg.HeartbeatInterval, beatBound) }

// heard acts on the answer to one heartbeat.
func (p *Pool) heard(h *held, word job.Word, sent time.Time, timeout time.Duration) {
	if word == job.Lost {
		p.beatLost(h)
		return
	}
	if word != job.OK && word != job.Cancel {
		p.log.Error("a heartbeat got an answer that it does not know", h.fields("word", word)...)
		return
	}
	p.mu.Lock()
	if sent.After(h.beaten) { // a checkpoint and a round may overtake each other
		h.beaten, h.safe = sent, sent.Add(timeout)
	}
	p.mu.Unlock()
	if word == job.Cancel {
		h.ctx.cancel(handler.ErrCancelled) // the first cause stands, so saying it again does nothing
	}
}

// beatLost drops a lease that another worker may hold. One that has its ending is left alone: the ending itself may be
// why the lease is gone, and asking again gives its answer.
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
	p.log.Warn("the lease is lost; what its handler returns is dropped", h.fields()...)
	p.cfg.Observe.Ended(&h.lease, job.EndLost, "", h.age())
}
