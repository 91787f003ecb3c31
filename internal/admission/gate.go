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
	// dwell is the least time between two changes of the gate, in either direction, so that the gate does not flap
	// with a flapping Redis.
	dwell        = 2 * time.Second
	probeEvery   = 2 * time.Second
	probeTimeout = 500 * time.Millisecond
	gateTick     = 200 * time.Millisecond
)

// GateOptions are what a Gate needs. Probe is required, and with several partitions ProbePartition.
type GateOptions struct {
	// a tiny write to the store; with several partitions, to the store that they share: that of the journal
	Probe       func(ctx context.Context) error
	Threshold   int   // consecutive infrastructure errors that close the gate; default 3
	OutboxCount int64 // outcomes in the outbox that close the gate; default 100,000
	OutboxBytes int64 // their bytes; default 256 MiB
	Log         *slog.Logger

	Partitions     int                                            // default 1
	ProbePartition func(ctx context.Context, partition int) error // a tiny write to the server of a partition
}

// GateState is the gate as users and operators see it.
type GateState struct {
	Open      bool // jobs may enter, in at least one partition
	Failures  int  // consecutive infrastructure errors so far; with several partitions, of the worst of them
	Threshold int
	Reason    string    // why the gate is closed
	NextProbe time.Time // zero while open

	Partitions int
	Closed     []int // the partitions that take no jobs while others do, because their own server fails
}

// Gate says whether the system is healthy enough to accept jobs. It closes after Threshold consecutive
// infrastructure errors, when the store is out of memory, when the outbox is full, or when the accept journal
// fails. It stays closed for at least 2 s. Then a write probes the store every 2 s, and the first that succeeds
// opens the gate. The retries and the back-off of jobs do not change the count of errors. Each partition has its
// own count, because it may be on a server of its own: a closed partition refuses nothing for the others. A Gate
// is safe for concurrent use.
type Gate struct {
	options GateOptions
	open    atomic.Bool // in at least one partition

	mu      sync.Mutex
	whole   leaf   // with one partition it includes the health of that partition's store
	parts   []leaf // one per partition, if there are several
	onOpen  []func()
	stop    context.CancelFunc
	stopped bool
	group   sync.WaitGroup
}

// leaf is a part of the gate that closes and opens by itself. Gate.mu guards every field except open.
type leaf struct {
	open      atomic.Bool
	partition int // wholeGate for all
	facts     facts
	reason    string
}

const wholeGate = -1

// facts are the input of judge.
type facts struct {
	open       bool
	changed    time.Time // the last change; zero = none yet
	failures   int
	threshold  int
	outboxFull bool
	noMemory   bool // the store has just refused a call because it is full
	unkept     bool // the journal cannot write
	nextProbe  time.Time
}

// verdict says what the gate should do now.
type verdict int

const (
	stay          verdict = iota // no change
	closeFailures                // close: the store fails
	closeMemory                  // close: the store is full
	closeOutbox                  // close: SQL does not keep up
	closeJournal                 // close: SQL does not take the journal's rows
	probe                        // ask the store; a success opens the gate
)

// judge decides from the facts alone.
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

// NewGate returns an open gate. Before Start it can close but not open again.
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

// of returns the leaf for the health of a partition's store.
func (g *Gate) of(partition int) *leaf {
	if g.parts == nil {
		return &g.whole
	}
	return &g.parts[partition]
}

// Open reports whether jobs may enter in at least one partition. It costs one atomic read.
func (g *Gate) Open() bool { return g.open.Load() }

// OpenAt reports whether jobs may enter a partition. It costs two atomic reads.
func (g *Gate) OpenAt(partition int) bool { return g.whole.open.Load() && g.of(partition).open.Load() }

// State returns a consistent copy of the gate's state.
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

// shut returns the leaf that keeps a partition closed. For wholeGate it returns the leaf that keeps everything
// closed: if that is the partitions, the one that is probed next. The caller holds the lock.
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

// OnOpen adds a function that is called each time the gate, or a partition's part of it, opens again. Calls may
// overlap if several parts open at once. The function must not block.
func (g *Gate) OnOpen(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onOpen = append(g.onOpen, f)
}

// Observe counts the result of a mutating call to a partition: nil, or its error. An infrastructure error adds to
// the count, a success resets it. Any other error, as that of a client that hung up, says nothing about the store.
// Only a probe opens a closed gate.
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
	// The count alone would not close the gate: on a full store other calls, which free memory or need none, succeed
	// and reset it.
	l.facts.noMemory = errors.Is(err, job.ErrNoMemory)
	g.settle(l, time.Now(), err.Error())
	l.facts.noMemory = false
}

// SetOutbox sets how much is in the outbox. At its limits the gate closes; the outbox then counts as full until it
// is below 90 % of them.
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

// ObserveJournal takes the result of a transaction of the accept journal. An error closes the gate, because
// nothing is accepted without its row. With a journal, Probe must also try a write to the journal's store: only
// that opens the gate again.
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

// settle closes a leaf if it must be closed, and returns the verdict. The caller holds the lock.
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

// look updates whether jobs may enter anywhere. The caller holds the lock.
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

// refusal returns the error of a submit while a partition's part of the gate is closed, or (wholeGate) all of it.
func (g *Gate) refusal(partition int) error {
	g.mu.Lock()
	next := g.shut(partition).facts.nextProbe
	g.mu.Unlock()
	return refuse(job.ErrUnhealthy, time.Until(next))
}
