// Package push runs the jobs of queues that post them to a URL. It is a worker of its own in the process: it claims
// sealed leases as a worker of another program does, posts each payload, and reports what the receiver answered.
//
//	push.go     the Pusher: its start, its quiet, its end
//	claim.go    the queues that push, and the claims of each, while fewer posts are under way than may be
//	attempt.go  one post: its context, its report
//	beat.go     the heartbeats of all posts
//
// Three rules hold. A queue has at most its Concurrency of posts under way in the process. A report is repeated until
// it is answered, or until Stop gives up. A receiver that answered 202 holds the lease from then on: the process sends
// no more heartbeats for it, and does not count it.
package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Leases hands out leases to workers outside the pool, and takes their reports: see package leasing.
type Leases interface {
	// Claim waits for jobs up to c.Wait. When ctx ends, the jobs that it took go back.
	Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error)
	Heartbeat(ctx context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error)
	End(ctx context.Context, key string, reports []job.WorkerReport) []job.WorkerEnd
}

// Config configures a Pusher. All fields but Around are required.
type Config struct {
	Leases Leases
	Queues func() []job.Queue // the declared queues, as they were last read
	// Post sends a job to its receiver. lease is what the receiver may end the job with; "" = nothing.
	Post func(ctx context.Context, to job.Push, l *job.WorkerLease, lease string) (job.PushAnswer, error)
	// Open says whether the server has no API keys, so that anybody may end a job by its lease.
	Open         func() bool
	Worker       string // the process' name in histories
	DrainTimeout time.Duration
	Log          *slog.Logger

	// Around opens the surroundings of each post, as for the handlers of the pool; nil = none.
	Around func(ctx context.Context, l *job.Lease) (context.Context, func(err error))
}

const (
	beatEvery  = time.Second
	lookEvery  = time.Second // at the declared queues
	claimWait  = 20 * time.Second
	claimRest  = time.Second // after a claim that failed, or was answered at once with no job
	drainGrace = time.Second // for posts to end after they were told to stop
)

// Pusher posts the jobs of the queues that push. Make it with New.
type Pusher struct {
	Config
	io   context.Context // of reports and heartbeats: ends last
	shut context.CancelFunc
	base context.Context // of posts
	stop context.CancelCauseFunc
	told loop.Signal    // Quiet was called
	wg   sync.WaitGroup // the loops, not the attempts

	mu       sync.Mutex
	begun    bool
	over     bool // Stop was called
	quiet    bool
	claimers map[string]*claimer // by queue
	running  map[*attempt]struct{}
	counts   map[string]int  // attempts by queue
	failing  map[string]bool // what failed at the last try, so that an outage is logged once
	lost     int             // reports that Stop gave up
	changed  chan struct{}   // closed and replaced when an attempt has ended
}

// New makes a Pusher, which does nothing until Start.
func New(c Config) *Pusher {
	p := &Pusher{Config: c, claimers: map[string]*claimer{}, running: map[*attempt]struct{}{}, counts: map[string]int{},
		failing: map[string]bool{}, changed: make(chan struct{}), told: loop.NewSignal()}
	p.io, p.shut = context.WithCancel(context.Background())
	p.base, p.stop = context.WithCancelCause(context.Background())
	return p
}

// Start begins to post.
func (p *Pusher) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun || p.over {
		return errors.New("start to push: it was started or stopped before")
	}
	p.begun = true
	p.wg.Go(p.lookLoop)
	p.wg.Go(p.beatLoop)
	return nil
}

// Quiet makes the Pusher claim no more jobs, or claim again. It may be called at any time.
func (p *Pusher) Quiet(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet = on; on {
		p.endClaimers(func(*claimer) bool { return true })
	}
	p.told.Set()
}

// Running returns how many posts are under way.
func (p *Pusher) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running)
}

// Stop claims no more jobs, waits up to DrainTimeout for the posts under way, then ends the others and gives their jobs
// back. It returns an error if a report was not answered: its job comes back through the watches.
func (p *Pusher) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.over = true
	p.endClaimers(func(*claimer) bool { return true })
	p.mu.Unlock()
	if !p.idle(ctx, p.DrainTimeout) {
		p.stop(handler.ErrDraining)
		p.idle(context.WithoutCancel(ctx), drainGrace)
	}
	p.shut()
	p.wg.Wait()
	idle := p.idle(context.WithoutCancel(ctx), drainGrace)
	p.mu.Lock()
	lost := p.lost
	p.mu.Unlock()
	if !idle || lost > 0 {
		return fmt.Errorf("stop to push: the ends of %d posts are not reported, and others are under way: %t", lost, !idle)
	}
	return nil
}

// tried logs that something begins to fail, and that it succeeds again, but not each failure in between.
func (p *Pusher) tried(what string, err error, more ...any) {
	p.mu.Lock()
	before := p.failing[what]
	p.failing[what] = err != nil
	p.mu.Unlock()
	switch {
	case err != nil && !before:
		p.Log.Warn("pushing jobs: "+what+" fails; trying again", append(more, "err", err)...)
	case err == nil && before:
		p.Log.Info("pushing jobs: "+what+" succeeds again", more...)
	}
}

// idle waits until no post is under way. It returns false if that took longer than most, or until ctx ended.
func (p *Pusher) idle(ctx context.Context, most time.Duration) bool {
	limit := time.NewTimer(most)
	defer limit.Stop()
	for {
		p.mu.Lock()
		n, changed := len(p.running), p.changed
		p.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-changed:
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// wake wakes what waits for the end of an attempt. p.mu is held.
func (p *Pusher) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// endClaimers ends some claimers. p.mu is held.
func (p *Pusher) endClaimers(which func(c *claimer) bool) {
	for name, c := range p.claimers {
		if which(c) {
			c.end()
			delete(p.claimers, name)
		}
	}
}
