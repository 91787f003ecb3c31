package push

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// claimer claims the jobs of one queue until its context ends.
type claimer struct {
	queue string
	push  job.Push
	ctx   context.Context
	end   context.CancelFunc
}

// lookLoop makes a claimer for each queue that pushes, and ends those of queues that do so no more, or otherwise.
func (p *Pusher) lookLoop() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		p.look()
		select {
		case <-p.io.Done():
			return
		case <-tick.C:
		case <-p.told:
		}
	}
}

// look compares the claimers with the declared queues once.
func (p *Pusher) look() {
	pushes := map[string]job.Push{}
	for _, q := range p.Queues() {
		if q.Push.On() {
			pushes[q.Name] = q.Push
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endClaimers(func(c *claimer) bool { return pushes[c.queue] != c.push })
	if p.quiet || p.over {
		return
	}
	for name, push := range pushes {
		if p.claimers[name] == nil {
			c := &claimer{queue: name, push: push}
			c.ctx, c.end = context.WithCancel(p.io)
			p.claimers[name] = c
			p.wg.Go(func() { p.claimLoop(c) })
		}
	}
}

// claimLoop claims jobs of a claimer's queue while fewer posts are under way than may be.
func (p *Pusher) claimLoop(c *claimer) {
	id, repeat := "", 0
	for {
		n := p.room(c)
		if n == 0 {
			return
		}
		if id == "" {
			id, repeat = newID(), 0
		}
		began := time.Now()
		leases, err := p.Leases.Claim(c.ctx, job.WorkerClaim{
			Key: c.push.Key, Worker: p.Worker, ID: id, Repeat: repeat, Queues: []string{c.queue}, Max: n, Wait: claimWait,
		})
		if c.ctx.Err() != nil && err != nil {
			return
		}
		p.tried("claim", err, "queue", c.queue)
		if repeat++; err == nil {
			id = "" // a claim that may have taken jobs is sent again as it was, and gets them
		}
		for i := range leases {
			p.begin(c, leases[i])
		}
		if len(leases) == 0 && (err != nil || time.Since(began) < claimRest) && !pause(c.ctx, claimRest) {
			return
		}
	}
}

// room waits until a post of the claimer's queue may begin, and returns how many may; 0 = the claimer has ended.
func (p *Pusher) room(c *claimer) int {
	for {
		p.mu.Lock()
		n, changed := min(c.push.AtOnce()-p.counts[c.queue], job.MaxBatch), p.changed
		p.mu.Unlock()
		switch {
		case c.ctx.Err() != nil:
			return 0
		case n > 0:
			return n
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
		}
	}
}

// pause waits, and returns false if ctx ended meanwhile.
func pause(ctx context.Context, long time.Duration) bool {
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// newID names a claim.
func newID() string {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails, says crypto/rand
	return hex.EncodeToString(id)
}
