package push

import (
	"context"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// beatBound is the time limit of the heartbeats of one key.
const beatBound = 5 * time.Second

// beatLoop keeps the leases of all posts alive until the very end of Stop.
func (p *Pusher) beatLoop() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.io.Done():
			return
		case <-tick.C:
			p.beat()
		}
	}
}

// beat sends one heartbeat for each post, and ends the posts whose lease is lost or may be, or whose job was cancelled.
func (p *Pusher) beat() {
	byKey := map[string][]*attempt{}
	var lost []*attempt
	p.mu.Lock()
	for a := range p.running {
		byKey[a.push.Key] = append(byKey[a.push.Key], a)
		if time.Now().After(a.until) {
			lost = append(lost, a)
		}
	}
	p.mu.Unlock()
	for _, a := range lost {
		a.cancel(handler.ErrLeaseLost)
	}
	for key, all := range byKey {
		for batch := range slices.Chunk(all, job.MaxBatch) {
			p.beatBatch(key, batch)
		}
	}
}

func (p *Pusher) beatBatch(key string, batch []*attempt) {
	beats := make([]job.WorkerBeat, len(batch))
	for i, a := range batch {
		beats[i] = job.WorkerBeat{Sealed: a.lease.Sealed}
	}
	ctx, cancel := context.WithTimeout(p.io, beatBound)
	defer cancel()
	words, err := p.Leases.Heartbeat(ctx, key, beats)
	if p.io.Err() != nil {
		return
	}
	p.tried("heartbeat", err)
	if err != nil {
		return // the next round comes soon
	}
	for i, a := range batch {
		switch words[i].Word {
		case job.OK:
			p.extended(a, words[i].Until)
		case job.Cancel:
			p.extended(a, words[i].Until)
			a.cancel(handler.ErrCancelled) // the first cause stands, so repeating it has no effect
		case job.Lost:
			a.cancel(handler.ErrLeaseLost)
		}
	}
}

func (p *Pusher) extended(a *attempt, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.until = until
}
