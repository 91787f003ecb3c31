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
	// dwell is the least time between two changes of the gate, in either direction: a flapping Redis does not make it flap.
	dwell        = 2 * time.Second
	probeEvery   = 2 * time.Second
	probeTimeout = 500 * time.Millisecond
	gateTick     = 200 * time.Millisecond
)

// GateOptions are what a Gate needs. Probe is required: a tiny write to the store.
type GateOptions struct {
	Probe       func(ctx context.Context) error
	Threshold   int   // consecutive infrastructure errors that close it; default 3
	OutboxCount int64 // undrained outcomes that close it; default 100,000
	OutboxBytes int64 // their bytes; default 256 MiB
	Log         *slog.Logger
}

// GateState is the gate as users and operators see it.
type GateState struct {
	Open      bool
	Failures  int // consecutive infrastructure errors so far
	Threshold int
	Reason    string    // why it is closed
	NextProbe time.Time // zero while open
}

// Gate says whether the system is healthy enough to accept. It closes after Threshold consecutive infrastructure errors, on a full
// outbox, or when the accept journal fails, for at least 2 s; then one write in 2 s probes the store, and the first that succeeds opens it. Its count is its own: the
// retries and back-off of jobs neither see nor move it. It is safe for concurrent use.
type Gate struct {
	options GateOptions
	open    atomic.Bool

	mu      sync.Mutex
	facts   facts
	reason  string
	onOpen  []func()
	stop    context.CancelFunc
	stopped bool
	group   sync.WaitGroup
}

// facts are what the verdict is made of.
type facts struct {
	open       bool
	changed    time.Time // the last change; zero = none yet
	failures   int
	threshold  int
	outboxFull bool
	unkept     bool // the journal does not take what was accepted
	nextProbe  time.Time
}

// verdict is what the gate should do now.
type verdict int

const (
	stay          verdict = iota // as it is
	closeFailures                // the store fails
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
	g := &Gate{options: o, facts: facts{open: true, threshold: o.Threshold}}
	g.open.Store(true)
	return g
}

// Open reports whether jobs may enter. It costs one atomic read.
func (g *Gate) Open() bool { return g.open.Load() }

// State is a consistent copy of what the gate knows.
func (g *Gate) State() GateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := GateState{Open: g.facts.open, Failures: g.facts.failures, Threshold: g.facts.threshold}
	if !s.Open {
		s.Reason, s.NextProbe = g.reason, g.facts.nextProbe
	}
	return s
}

// OnOpen adds a function that is called each time the gate opens again. It must not block.
func (g *Gate) OnOpen(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onOpen = append(g.onOpen, f)
}

// Observe takes the outcome of a mutating call to the store: nil, or its error. Infrastructure errors count, success starts the
// count again; anything else says nothing about the store, a client that hung up least of all. Only a probe opens a closed gate.
func (g *Gate) Observe(err error) {
	infrastructure := errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous)
	if err != nil && !infrastructure {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.facts.failures = 0
		return
	}
	g.facts.failures++
	g.settle(time.Now(), err.Error())
}

// SetOutbox tells how much is decided but not yet in SQL. At its limits the gate closes; it counts as full down to 90 % of them.
func (g *Gate) SetOutbox(count, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limitCount, limitBytes := g.options.OutboxCount, g.options.OutboxBytes
	if g.facts.outboxFull {
		limitCount, limitBytes = limitCount*9/10, limitBytes*9/10
	}
	g.facts.outboxFull = count >= limitCount || bytes >= limitBytes
	g.settle(time.Now(), "")
}

// ObserveJournal takes the outcome of a transaction of the accept journal: an error closes the gate, for without its row nothing is accepted.
// While there is a journal, Probe must ask for a write of its store too: only that opens the gate again.
func (g *Gate) ObserveJournal(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		if g.facts.open {
			g.facts.unkept = false
		}
		return
	}
	if errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
		g.facts.unkept = true
		g.settle(time.Now(), err.Error())
	}
}

// settle closes the gate if it must be closed, and returns the verdict. The lock is held.
func (g *Gate) settle(now time.Time, lastError string) verdict {
	v := judge(g.facts, now)
	switch v {
	case closeFailures:
		g.reason = fmt.Sprintf("%d consecutive errors of the store", g.facts.failures)
	case closeJournal:
		g.reason = "SQL does not take what the accept journal must keep"
	case closeOutbox:
		g.reason = "the outbox is full: SQL does not keep up"
	default:
		return v
	}
	g.facts.open, g.facts.changed, g.facts.nextProbe = false, now, now.Add(dwell)
	g.open.Store(false)
	g.options.Log.Warn("gate closed", "reason", g.reason, "cause", lastError)
	return v
}

// refusal is what a submit is told while the gate is closed.
func (g *Gate) refusal() error {
	g.mu.Lock()
	next := g.facts.nextProbe
	g.mu.Unlock()
	return refuse(job.ErrUnhealthy, time.Until(next))
}
