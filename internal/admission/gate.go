package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	// dwell is the least time between two changes of the gate, in either direction: a flapping Redis does not make it
	// flap.
	dwell        = 2 * time.Second
	probeEvery   = 2 * time.Second
	probeTimeout = 500 * time.Millisecond
	gateTick     = 200 * time.Millisecond
)

// GateOptions are what a Gate needs. Probe is required, and with several partitions ProbePartition.
type GateOptions struct {
	// a tiny write to the store; with several partitions to what they share, the journal's store
	Probe       func(ctx context.Context) error
	Threshold   int   // consecutive infrastructure errors that close it; default 3
	OutboxCount int64 // undrained outcomes that close it; default 100,000
	OutboxBytes int64 // their bytes; default 256 MiB
	Log         *slog.Logger

	Partitions     int                                            // default 1
	ProbePartition func(ctx context.Context, partition int) error // a tiny write to the server of a partition
}

// GateState is the gate as users and operators see it.
type GateState struct {
	Open      bool // jobs may enter, in some partition at least
	Failures  int  // consecutive infrastructure errors so far; with several partitions, of the worst of them
	Threshold int
	Reason    string    // why it is closed
	NextProbe time.Time // zero while open

	Partitions int
	Closed     []int // the partitions that take no jobs while others do, because their own server fails
}

// Gate says whether the system is healthy enough to accept. It closes after Threshold consecutive infrastructure
// errors, when the store has no memory left, on a full outbox, or when the accept journal fails, for at least 2 s; then
// one write in 2 s probes the store, and the first that succeeds opens it. The retries and the back-off of jobs do not
// change the gate's count of errors. Several partitions may live on several servers, so each partition has its own
// count: a closed partition refuses nothing for the others. A Gate is safe for concurrent use.
type Gate struct {
	options GateOptions
	open    atomic.Bool // somewhere

	mu      sync.Mutex
	whole   leaf   // with one partition its store's health too
	parts   []leaf // the partitions', where there are several
	onOpen  []func()
	stop    context.CancelFunc
	stopped bool
	group   sync.WaitGroup
}

// leaf is the part of the gate that closes and opens by itself. Gate.mu guards all but open.
type leaf struct {
	open      atomic.Bool
	partition int // wholeGate for all
	facts     facts
	reason    string
}

const wholeGate = -1

// facts are what the verdict is made of.
type facts struct {
	open       bool
	changed    time.Time // the last change; zero = none yet
	failures   int
	threshold  int
	outboxFull bool
	noMemory   bool // the store has just refused a call because it is full
	unkept     bool // the journal does not take what was accepted
	nextProbe  time.Time
}

// verdict is what the gate should do now.
type verdict int

const (
	stay          verdict = iota // as it is
	closeFailures                // the store fails
	closeMemory                  // the store is full
	closeOutbox                  // SQL does not keep up
	closeJournal                 // SQL does not take the journal's rows
	probe                        // ask the store; its answer opens
)

// judge decides, from the facts alone.
func judge(f facts, now time.Time) verdict {
	switch {
	case f.open && !f.changed.IsZero() && now.Sub(f.changed) < dwell:
		return stay
	case f.open && f.failures >= f.threshold:
		return closeFailures
	case f.open && f.noMemory:
		return closeMemory
	case f.open && f.unkept:
		return closeJournal
	case f.open && f.outboxFull:
		return closeOutbox
	case !f.open && !f.outboxFull && !now.Before(f.nextProbe):
		return probe
	}
	return stay
}

// NewGate returns an open gate. Until it is started it closes but never opens again.
func NewGate(o GateOptions) *Gate {
	if o.Threshold <= 0 {
		o.Threshold = 3
	}
	if o.OutboxCount <= 0 {
		o.OutboxCount = 100_000
	}
	if o.OutboxBytes <= 0 {
		o.OutboxBytes = 256 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gate{options: o}
	g.whole.begin(wholeGate, o.Threshold)
	if o.Partitions > 1 {
		g.parts = make([]leaf, o.Partitions)
		for p := range g.parts {
			g.parts[p].begin(p, o.Threshold)
		}
	}
	g.open.Store(true)
	return g
}

func (l *leaf) begin(partition, threshold int) {
	l.partition, l.facts = partition, facts{open: true, threshold: threshold}
	l.open.Store(true)
}

// of is the leaf that hears of a partition's store.
func (g *Gate) of(partition int) *leaf {
	if g.parts == nil {
		return &g.whole
	}
	return &g.parts[partition]
}

// Open reports whether jobs may enter, somewhere. It costs one atomic read.
func (g *Gate) Open() bool { return g.open.Load() }

// OpenAt reports whether jobs may enter a partition. It costs two atomic reads.
func (g *Gate) OpenAt(partition int) bool { return g.whole.open.Load() && g.of(partition).open.Load() }

// State is a consistent copy of what the gate knows.
func (g *Gate) State() GateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := GateState{Open: g.open.Load(), Failures: g.whole.facts.failures, Threshold: g.whole.facts.threshold,
		Partitions: max(len(g.parts), 1)}
	for p := range g.parts {
		s.Failures = max(s.Failures, g.parts[p].facts.failures)
		if !g.parts[p].facts.open && s.Open {
			s.Closed = append(s.Closed, p)
		}
	}
	if !s.Open {
		shut := g.shut(wholeGate)
		s.Reason, s.NextProbe = shut.reason, shut.facts.nextProbe
	}
	return s
}

// shut is what keeps a partition closed, or (wholeGate) everything: then it is the partition that is asked next. The
// lock is held.
func (g *Gate) shut(partition int) *leaf {
	switch {
	case !g.whole.facts.open || g.parts == nil:
		return &g.whole
	case partition != wholeGate:
		return &g.parts[partition]
	}
	next := &g.parts[0]
	for p := range g.parts {
		if g.parts[p].facts.nextProbe.Before(next.facts.nextProbe) {
			next = &g.parts[p]
		}
	}
	return next
}

// OnOpen adds a function that is called each time the gate, or a partition's, opens again, by several at once if
// several open. It must not block.
func (g *Gate) OnOpen(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onOpen = append(g.onOpen, f)
}

// Observe takes the outcome of a mutating call to a partition: nil, or its error. Infrastructure errors count, success
// starts the count again; anything else says nothing about the store, a client that hung up least of all. Only a probe
// opens a closed gate.
func (g *Gate) Observe(partition int, err error) {
	infrastructure := job.Outage(err)
	if err != nil && !infrastructure {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.of(partition)
	if err == nil {
		l.facts.failures = 0
		return
	}
	l.facts.failures++
	// What else succeeds on a full store starts the count again and again: it frees memory, or needs none.
	l.facts.noMemory = errors.Is(err, job.ErrNoMemory)
	g.settle(l, time.Now(), err.Error())
	l.facts.noMemory = false
}

// SetOutbox tells how much is decided but not yet in SQL. At its limits the gate closes; it counts as full down to 90 %
// of them.
func (g *Gate) SetOutbox(count, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limitCount, limitBytes := g.options.OutboxCount, g.options.OutboxBytes
	if g.whole.facts.outboxFull {
		limitCount, limitBytes = limitCount*9/10, limitBytes*9/10
	}
	g.whole.facts.outboxFull = count >= limitCount || bytes >= limitBytes
	g.settle(&g.whole, time.Now(), "")
}

// ObserveJournal takes the outcome of a transaction of the accept journal: an error closes the gate, for without its
// row nothing is accepted. While there is a journal, Probe must ask for a write of its store too: only that opens the
// gate again.
func (g *Gate) ObserveJournal(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		if g.whole.facts.open {
			g.whole.facts.unkept = false
		}
		return
	}
	if job.Outage(err) {
		g.whole.facts.unkept = true
		g.settle(&g.whole, time.Now(), err.Error())
	}
}

// settle closes a leaf if it must be closed, and returns the verdict. The lock is held.
func (g *Gate) settle(l *leaf, now time.Time, lastError string) verdict {
	v := judge(l.facts, now)
	switch v {
	case closeFailures:
		l.reason = fmt.Sprintf("%d consecutive errors of the store", l.facts.failures)
	case closeMemory:
		l.reason = "Redis is full: it refuses what adds"
	case closeJournal:
		l.reason = "SQL does not take what the accept journal must keep"
	case closeOutbox:
		l.reason = "the outbox is full: SQL does not keep up"
	default:
		return v
	}
	l.facts.open, l.facts.changed, l.facts.nextProbe = false, now, now.Add(dwell)
	l.open.Store(false)
	g.look()
	g.log(l).Warn("gate closed", "reason", l.reason, "cause", lastError)
	return v
}

// look sets whether anything may enter. The lock is held.
func (g *Gate) look() {
	open := g.parts == nil
	for p := range g.parts {
		open = open || g.parts[p].facts.open
	}
	g.open.Store(open && g.whole.facts.open)
}

func (g *Gate) log(l *leaf) *slog.Logger {
	if l.partition == wholeGate {
		return g.options.Log
	}
	return g.options.Log.With("partition", l.partition)
}

// refusal is what a submit is told while the gate is closed: a partition's, or (wholeGate) all.
func (g *Gate) refusal(partition int) error {
	g.mu.Lock()
	next := g.shut(partition).facts.nextProbe
	g.mu.Unlock()
	return refuse(job.ErrUnhealthy, time.Until(next))
}
