// Package worker runs jobs: a pool that claims leases, keeps them alive with heartbeats, runs their handlers and
// reports how they ended.
//
// The steps of a lease in this package, and the file of each step:
//
//	claim.go    one claimer claims jobs for all free slots; bell.go wakes the claimer; heads.go picks the partition with
//	            the best job
//	ask.go      the claimer asks several partitions at once, so that a partition that does not answer delays no other
//	ready.go    claimed leases wait for a goroutine: a few goroutines run short handlers, and a handler that blocks does
//	            not delay the others
//	run.go      a handler runs in a slot until it returns, with a context of its own (context.go); verdict.go decides
//	            which ending its return means
//	beat.go     one batch of heartbeats per interval keeps every lease alive; its reply says LOST or CANCEL
//	save.go     a handler's checkpoint is sent at once, with a heartbeat of its own
//	tell.go     a handler's progress goes along with the next heartbeat, its lines with the next call of logger.go
//	watch.go    the pool's own check of its leases: maximum processing time, lost trust, stuck handlers
//	slots.go    how many slots are taken, and how slots of stuck handlers are reused
//	batcher.go  endings wait in a batcher per partition and kind; send.go sends them in batches until they are answered
//	drain.go    Stop: finish, release, deliver
//
// Three rules hold everywhere. A lease gets exactly one ending, chosen under Pool.mu by the first of its handler,
// the watch, a LOST heartbeat and the drain; later endings are dropped. A slot is taken until its handler has
// returned, whatever became of the lease, or until the handler is stuck: then another handler gets the slot, for
// at most Slots stuck handlers (slots.go). An ending is never given up while the process lives: only Redis' answer
// settles it.
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
// replies come in the order of the entries. An error is job.ErrUnavailable if the call was certainly not executed.
// After any other error the call may have been executed, and the pool sends it again: a claim under its number, an
// ending under its token. A batch may be reused after the call.
type Queue interface {
	Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error)
	Complete(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply, error)
	Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error)
	Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error)
}

// Heartbeater sends heartbeats on connections of its own, with short time limits. It returns OK, CANCEL or LOST
// for each entry. OK and CANCEL extend the lease.
type Heartbeater interface {
	Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error)
}

// Doorbell signals that a job may be ready. Wait returns nil after a token, or after about a second without one.
// Ring passes a token on.
type Doorbell interface {
	Wait(ctx context.Context, partition int) error
	Ring(ctx context.Context, partition int) error
}

// Recorder takes outcomes that go to SQL from memory. Offer does not block; if it returns false, the outbox still
// has the outcome. Wake says that the outbox has an outcome that was not offered.
type Recorder interface {
	Offer(o job.Outcome) bool
	Wake()
}

// Config configures a pool. All fields except PriorityBase, Observe, Around and Inputs are required.
type Config struct {
	Slots             int // handlers at a time, not counting up to as many stuck ones
	Partitions        int
	PriorityBase      int64 // score step between tiers; 0 = not known: claims from several partitions are then smaller
	HeartbeatInterval time.Duration
	ResultLimit       int // bytes
	DrainTimeout      time.Duration
	Registry          *handler.Registry
	Plans             *job.PlanBook
	Log               *slog.Logger
	Nonce             string // the process' name in tokens and logs

	Observe Observer                // nil = none
	Logs    Logs                    // takes what handlers log; nil = nothing is kept
	LogsOff func(queue string) bool // whether the lines of a queue's jobs are not kept; nil = no queue's
	// Around opens the surroundings of each handler call, such as a trace's span. It returns the handler's context
	// and a function that is called with the handler's error. nil = none.
	Around func(ctx context.Context, l *job.Lease) (context.Context, func(err error))
	// Inputs reads what the jobs of its flow that a job waited for left behind; "" = all of them. nil = there are no
	// flows.
	Inputs func(ctx context.Context, id job.ID, name string) ([]job.FlowInput, error)
}

// Pool runs jobs in Slots slots. Make it with New.
type Pool struct {
	cfg      Config
	queue    Queue
	pulse    Heartbeater
	bell     Doorbell
	recorder Recorder
	log      *slog.Logger

	base         context.Context    // of handlers: has Start's values, never ends by itself
	io           context.Context    // of calls: ends last
	shut         context.CancelFunc // ends io
	quiet        context.Context    // of the doorbell: ends when claiming stops
	stopClaiming context.CancelFunc
	wg           sync.WaitGroup // every loop and sender; not the handlers, which may be stuck

	woken    loop.Signal   // Wake was called
	wakes    []atomic.Bool // the partitions that Wake and WakeAt named
	answers  chan claimed  // answers to claims, with several partitions
	freed    loop.Signal   // a slot may be free again
	rung     chan int      // a doorbell returned; its partition
	changed  loop.Signal   // the condition that a drain waits for may have changed
	saving   chan struct{} // held by the one checkpoint that is being sent
	stopping chan struct{} // closed by Stop
	stopped  chan struct{} // closed when Stop is done
	stopErr  error         // set before stopped is closed

	claims   []int64   // the last claim number, per partition; owned by the claimer, or by its call
	heads    heads     // the claimer's
	stalls   []growing // the claimer's: how long a partition rests that has jobs but returns none
	out      int       // the claimer's: calls without an answer
	round    int       // the claimer's: number of the last round of calls
	loggers  []*logger // by partition
	unacked  []unacked // endings that wait for the store's answer, per partition
	waiters  []waiter
	batchers []batcher

	mu           sync.Mutex
	woke         sync.Cond // of mu: waking or over was set
	state        state
	held         []*held // every lease that is not settled, and every handler that has not returned
	running      int     // handlers that have not returned
	stuck        int     // those of them that ignore their context
	ready        ready   // leases whose handlers have not begun, counted as running
	idle         int     // goroutines that wait for a lease, or are about to wait
	waking       bool    // a goroutine was woken or started and has not taken a lease yet
	over         bool    // idle goroutines end
	shouted      loss    // the loss of slots as last logged
	undelivered  int
	unackedBytes int  // bytes of the undelivered endings
	claiming     bool // the claimer has not returned
	quieted      bool // nothing is claimed, see Quiet

	outages  outages
	counters counters
	beatLag  atomic.Int64

	waitingBytes atomic.Int64 // of the lines that wait to be sent
}

// callBound is the time limit of a call, far above the connections' own time limits, so that no call can block a
// loop for ever.
const callBound = 10 * time.Second

type state int

const (
	fresh state = iota
	started
	ended
)

// New makes a pool, which does nothing until Start.
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
	pool.loggers = newLoggers(pool, cfg.Partitions)
	return pool
}

// Start begins to claim and run jobs. The pool runs until Stop, not until ctx ends; ctx gives handlers its values.
// Start returns an error if the pool was started or stopped before.
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

// Quiet makes the pool claim no more jobs, or claim again. Running jobs run on. It may be called at any time.
func (p *Pool) Quiet(on bool) {
	p.mu.Lock()
	changed := p.quieted != on
	p.quieted = on
	p.mu.Unlock()
	if changed {
		p.log.Info("the pool was told whether to claim jobs", "claims", !on)
		p.freed.Set()
	}
}

// Wake tells the pool that this process has just made a job ready, in any partition. It never blocks and may be
// called at any time.
func (p *Pool) Wake() {
	for i := range p.wakes {
		p.wakes[i].Store(true)
	}
	p.woken.Set()
}

// WakeAt is Wake for a known partition: the pool asks no other partition.
func (p *Pool) WakeAt(partition int) {
	p.wakes[partition].Store(true)
	p.woken.Set()
}
