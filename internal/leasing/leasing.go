// Package leasing hands out leases to workers outside tierq's processes, and takes their reports: what package worker
// is for the handlers of this process.
//
//	claim.go    a claim takes jobs, or waits in line until a job is there
//	waiters.go  who waits, in the order of their coming; listen.go hears the doorbells and wakes the first
//	lease.go    the sealed lease, which is all that a worker holds
//	beat.go     heartbeats, many leases in one call
//	log.go      lines of the jobs' logs
//	end.go      reports; lane.go gathers those of many callers in one call
//	seats.go    how many leases a key may hold at once
//	seen.go     which workers call, for operators, and what operators ask of them
//
// A process keeps nothing of a lease that it handed out: the sealed lease says what a report needs, so any process
// behind a balancer takes it. Every call may be repeated, and is repeated here for some seconds while Redis does not
// answer.
package leasing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Queue is the store of leases, as package worker has it. CompleteElsewhere is its Complete for a process that does
// not have the jobs in memory.
type Queue interface {
	Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error)
	CompleteElsewhere(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply, error)
	Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error)
	Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error)
	Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error)
	Log(ctx context.Context, partition int, batch []job.LogEntry) ([]job.Word, error)
}

// Doorbell signals that a queue may have a ready job. WaitIn returns the queue, of some, that rang; "" after about a
// second. RingIn passes a token on.
type Doorbell interface {
	WaitIn(ctx context.Context, partition int, queues []string) (string, error)
	RingIn(ctx context.Context, partition int, queue string) error
}

// Sealer makes a text unreadable for all but tierq's processes, and binds it to an owner. Open returns
// job.ErrBadLease for a text that no Seal can have made, and job.ErrLeaseLost for one that was not made for the owner.
type Sealer interface {
	Seal(ctx context.Context, text, owner string) (string, error)
	Open(ctx context.Context, sealed, owner string) (string, error)
}

// Observer observes claims and their ends, for metrics: see package worker.
type Observer interface {
	Started(l *job.Lease, waited time.Duration)
	Ended(l *job.Lease, how job.Ending, cause job.Cause, ran time.Duration)
}

// Config configures a Room. All fields except LogsOff are required.
type Config struct {
	Partitions   int
	PriorityBase int64 // the step between the scores of two tiers
	Strict       bool  // tiers do not overlap
	ResultLimit  int   // bytes
	Plans        *job.PlanBook
	Asks         *job.AskBook
	Queue        Queue
	Doorbell     Doorbell
	Sealer       Sealer
	Observe      Observer
	Log          *slog.Logger
	Seats        Seats

	// LogsOff says whether the jobs of a queue have no logs; nil = all have.
	LogsOff func(queue string) bool

	// Most returns how many leases an API key may hold at once; 0 = any number.
	Most func(keyID string) int

	// Ended is called when a report has ended a job for good, before its worker is told. With an error its worker has to
	// report once more.
	Ended func(ctx context.Context, id job.ID) error
}

// Room hands out leases. Make it with New.
type Room struct {
	Config
	waiters  *waiters
	sights   sights
	claims   chan struct{}      // holds one for each claim call under way
	beats    chan struct{}      // the same for heartbeats
	lanes    [][job.Verbs]*lane // by partition
	io       context.Context    // of calls that outlive their callers
	shut     context.CancelFunc
	draining chan struct{} // closed by Drain
	drain    sync.Once
	reports  sync.WaitGroup // the lanes that send
	wg       sync.WaitGroup // the listeners, and the tokens that are passed on
}

// New makes a room, whose claims wait for jobs from Start on.
func New(c Config) *Room {
	c.Partitions = max(c.Partitions, 1)
	r := &Room{
		Config: c, waiters: newWaiters(c.Partitions), lanes: make([][job.Verbs]*lane, c.Partitions),
		sights:   sights{all: map[string]*sight{}},
		draining: make(chan struct{}), claims: make(chan struct{}, mostClaims), beats: make(chan struct{}, mostBeats),
	}
	r.io, r.shut = context.WithCancel(context.Background())
	for p := range r.lanes {
		for v := range r.lanes[p] {
			r.lanes[p][v] = newLane(r, p, job.Verb(v))
		}
	}
	return r
}

// Start begins to listen to the doorbells of the queues that claims wait for.
func (r *Room) Start(context.Context) error {
	for p := range r.Partitions {
		r.wg.Go(func() { r.listen(p) })
	}
	return nil
}

// Drain answers the claims that wait, and those that come: with no jobs. Heartbeats and reports are served until Stop.
func (r *Room) Drain() { r.drain.Do(func() { close(r.draining) }) }

// Draining says whether Drain was called.
func (r *Room) Draining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// Stop waits for the reports that are under way, at most until ctx ends, and ends all other calls. The leases are the
// workers', and live on: another process takes their reports.
func (r *Room) Stop(ctx context.Context) error {
	r.Drain()
	err := loop.Waited(ctx, &r.reports)
	r.shut()
	return errors.Join(err, loop.Waited(ctx, &r.wg))
}

// The time for one call, and for its repeats while the store does not answer.
const (
	callBound = 10 * time.Second
	patience  = 5 * time.Second
)

// Calls at once: the connections for claims and for heartbeats are few, and belong to the pool of this process too.
const (
	mostClaims = 6
	mostBeats  = 1
)

// again repeats a call that may be repeated, while the store does not answer.
func (r *Room) again(call func(ctx context.Context) error) error {
	end := time.Now().Add(patience)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithTimeout(r.io, callBound)
		err := call(ctx)
		cancel()
		if err == nil || !job.Outage(err) || r.io.Err() != nil || time.Now().Add(wait).After(end) {
			return err
		}
		select {
		case <-r.io.Done():
			return err
		case <-time.After(wait):
		}
	}
}
