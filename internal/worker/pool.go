// Package worker runs jobs: a pool that claims leases, keeps them alive with heartbeats, runs their handlers and
// reports how they ended.
//
// The life of a lease here, and the file that governs each step:
//
//	claim.go    one claimer takes jobs for all free slots; bell.go wakes it; heads.go says which partition has the best
//	            job
//	ask.go      how it asks several partitions, so that one that does not answer holds nobody
//	ready.go    what was claimed waits for a goroutine: few of them run short handlers, and one that blocks holds nobody
//	            up
//	run.go      a handler runs in a slot until it returns, in a context of its own (context.go); verdict.go decides which
//	            ending its return means
//	beat.go     one batch of heartbeats per interval keeps every lease alive; its reply says LOST or CANCEL
//	save.go     a handler's checkpoint is a heartbeat of its own that carries data
//	watch.go    the pool's own look at its leases: maximum processing time, leases it can no longer trust, stuck handlers
//	slots.go    how many slots are taken, and what becomes of those whose handlers are stuck
//
// batcher.go     endings wait in a batcher per partition and kind, and are sent in batches until they are answered
// (send.go)
//
//	drain.go    Stop: finish, hand back, deliver
//
// Three rules hold everywhere. A lease gets exactly one ending, chosen under Pool.mu by whoever is first: its handler,
// the watch, a LOST heartbeat or the drain; what comes later is dropped. A slot is taken until its handler has
// returned, whatever became of the lease, or until the handler is stuck: then the slot goes to others, Slots times at
// most (slots.go). An ending is never given up while the process lives: only Redis' answer settles it.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Queue is the store of leases. One call is one script call for one partition, with at most job.MaxBatch entries;
// replies come in the order of the entries. An error is job.ErrUnavailable if the call was certainly not executed;
// after any other the call may have been, and is sent again: a claim under its number, an ending under its token. A
// batch may be reused after the call.
type Queue interface {
	Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error)
	Complete(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply, error)
	Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error)
	Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error)
}

// Heartbeater sends heartbeats on connections of its own, with short timeouts: OK, CANCEL or LOST for each entry. OK
// and CANCEL extend the lease.
type Heartbeater interface {
	Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error)
}

// Doorbell hints that something is ready. Wait returns nil after a token, or after about a second without one.
type Doorbell interface {
	Wait(ctx context.Context, partition int) error
	Ring(ctx context.Context, partition int) error
}

// Recorder takes outcomes on their short way to SQL. Offer does not block; if it refuses, the outbox still has the
// outcome. Wake says that something waits in the outbox which nobody offered.
type Recorder interface {
	Offer(o job.Outcome) bool
	Wake()
}

// Config is what a pool is told. All fields but PriorityBase, Observe and Around are needed.
type Config struct {
	Slots             int // handlers at a time, besides as many stuck ones at most
	Partitions        int
	PriorityBase      int64 // one tier step of the scores; 0 = not known: with several partitions claims are smaller then
	HeartbeatInterval time.Duration
	ResultLimit       int // bytes
	DrainTimeout      time.Duration
	Registry          *handler.Registry
	Plans             *job.PlanBook
	Log               *slog.Logger
	Nonce             string // the process' name in tokens and logs

	Observe Observer // nil = nobody
	// Around opens what surrounds each run of a handler (a trace's span): it gives the handler's context and hears with
	// what error the run ended. nil = nothing.
	Around func(ctx context.Context, l *job.Lease) (context.Context, func(err error))
}

// Pool runs jobs in Slots slots. Make it with New.
type Pool struct {
	cfg      Config
	queue    Queue
	pulse    Heartbeater
	bell     Doorbell
	recorder Recorder
	log      *slog.Logger

	base         context.Context    // of handlers: carries Start's values, never ends by itself
	io           context.Context    // of calls: ends last
	shut         context.CancelFunc // ends io
	quiet        context.Context    // of the doorbell: ends when claiming stops
	stopClaiming context.CancelFunc
	wg           sync.WaitGroup // every loop and sender; not the handlers, which may be stuck

	woken    loop.Signal   // Wake was called
	wakes    []atomic.Bool // for which partitions
	answers  chan claimed  // of claims, where there are several partitions
	freed    loop.Signal   // there may be room again
	rung     chan int      // a doorbell returned; its partition
	changed  loop.Signal   // something a drain waits for may have happened
	saving   chan struct{} // held by the one checkpoint that is being sent
	stopping chan struct{} // closed by Stop
	stopped  chan struct{} // closed when Stop is through
	stopErr  error         // set before stopped is closed

	claims   []int64   // the last claim number, per partition; the claimer's, or its call's
	heads    heads     // the claimer's
	stalls   []growing // the claimer's: how long a partition rests that says it has jobs and gives none
	out      int       // the claimer's: calls whose answers are to come
	round    int       // the claimer's: counts them
	unacked  []unacked // what waits for the store's answer, per partition
	waiters  []waiter
	batchers []batcher

	mu           sync.Mutex
	woke         sync.Cond // of mu: waking or over was set
	state        state
	held         []*held // every lease that is not settled, and every handler that has not returned
	running      int     // handlers that have not returned
	stuck        int     // those of them that ignore their context
	ready        ready   // leases whose handlers are to begin, counted as running
	idle         int     // goroutines that wait for a lease, or are about to
	waking       bool    // one of them, or a new one, was woken and is not there yet
	over         bool    // they go
	shouted      loss    // as last logged
	undelivered  int
	unackedBytes int  // bytes of the undelivered
	claiming     bool // the claimer has not returned

	outages  outages
	counters counters
	beatLag  atomic.Int64
}

// callBound is the longest that a call may take: far above the connections' own timeouts, so that nothing can wedge a
// loop.
const callBound = 10 * time.Second

type state int

const (
	fresh state = iota
	started
	ended
)

// New makes a pool. It does nothing until Start.
func New(cfg Config, q Queue, p Heartbeater, d Doorbell, r Recorder) *Pool {
	cfg.Slots, cfg.Partitions = max(cfg.Slots, 1), max(cfg.Partitions, 1)
	if cfg.Observe == nil {
		cfg.Observe = nobody{}
	}
	pool := &Pool{
		cfg: cfg, queue: q, pulse: p, bell: d, recorder: r,
		log:      cfg.Log.With("worker", cfg.Nonce),
		woken:    loop.NewSignal(),
		wakes:    make([]atomic.Bool, cfg.Partitions),
		answers:  make(chan claimed, cfg.Partitions),
		freed:    loop.NewSignal(),
		rung:     make(chan int, cfg.Partitions),
		changed:  loop.NewSignal(),
		saving:   make(chan struct{}, 1),
		stopping: make(chan struct{}),
		stopped:  make(chan struct{}),
		claims:   make([]int64, cfg.Partitions),
		heads:    newHeads(cfg.Partitions, cfg.PriorityBase),
		stalls:   newStalls(cfg.Partitions),
		unacked:  make([]unacked, cfg.Partitions),
		waiters:  newWaiters(cfg.Partitions),
		batchers: newBatchers(cfg.Partitions),
		outages:  outages{since: map[line]time.Time{}},
	}
	pool.woke.L = &pool.mu
	return pool
}

// Start begins to claim and run jobs. The pool lives until Stop, not until ctx ends; ctx gives handlers its values. It
// fails if the pool was started or stopped before.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != fresh {
		return errors.New("start the pool: it was started or stopped before")
	}
	p.state, p.claiming = started, true
	p.base = context.WithoutCancel(ctx)
	p.io, p.shut = context.WithCancel(p.base)
	p.quiet, p.stopClaiming = context.WithCancel(p.io)
	p.wg.Go(p.claimLoop)
	for i := range p.waiters {
		p.wg.Go(func() { p.listenLoop(i) })
		p.wg.Go(func() { p.beatLoop(i) })
	}
	p.wg.Go(p.watchLoop)
	return nil
}

// Wake says that this process just made a job ready, somewhere. It never blocks and may be called at any time.
func (p *Pool) Wake() {
	for i := range p.wakes {
		p.wakes[i].Store(true)
	}
	p.woken.Set()
}

// WakeAt is Wake where the partition is known: the others are not asked.
func (p *Pool) WakeAt(partition int) {
	p.wakes[partition].Store(true)
	p.woken.Set()
}
