// Package sandbox is the queue behind /demo: a real tierq with a Redis of its own in memory, short times and
// workers that can be cut off, on which scenarios are played. A viewer sees only events of what really happened:
// told.go turns the calls of scripts into events, with the keys they touched. Only the archive is not the real
// one: it is a map.
//
// A Box plays one scenario at a time, each on an empty queue (world.go) that is removed when the scenario ends;
// its events remain. A Manager holds one box per browser session.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// The reasons why a scenario is not played.
var (
	ErrUnknown = errors.New("no such scenario")
	ErrStopped = errors.New("the box is stopped")
)

// playBound is the longest time of a scenario; all of them take less than a quarter of it.
const playBound = time.Minute

// Options are a box's options. The zero value is valid.
type Options struct {
	// Speed divides the narrator's wait after each caption: 2 = half as long; not positive = 1. It does not change
	// the queue's own times.
	Speed float64
	After int64 // event ids begin after it
	// for problems of the box itself; the logs of its workers and watches are dropped. nil = no log
	Log *slog.Logger
}

// Box plays scenarios. It is safe for concurrent use.
type Box struct {
	options Options
	ring    *ring

	mu      sync.Mutex
	now     *play
	stopped bool
	group   sync.WaitGroup
}

// play is one scenario that is being played.
type play struct {
	scenario Scenario
	cancel   context.CancelFunc
	gone     chan struct{} // closed when nothing of the scenario runs any more
	box      *Box
	over     bool // Done was published; guarded by Box.mu
}

// New makes a box in which nothing runs.
func New(o Options) *Box {
	if o.Speed <= 0 {
		o.Speed = 1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Box{options: o, ring: newRing(o.After)}
}

// Play begins a scenario and returns. The scenario's events, from Began to Done, show its progress. A scenario
// that is still playing is stopped and its events are removed. The end of ctx does not stop the scenario. The
// errors are ErrUnknown and ErrStopped.
func (b *Box) Play(ctx context.Context, scenario string) error {
	s, ok := find(scenario)
	if !ok {
		return fmt.Errorf("%w: %q", ErrUnknown, scenario)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrStopped
	}
	before := b.now
	if before != nil {
		before.cancel()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), playBound)
	p := &play{scenario: s, cancel: cancel, gone: make(chan struct{}), box: b}
	b.now = p
	b.ring.empty()
	b.ring.add(Event{Kind: Began, Scenario: s.ID, Note: s.Title})
	b.group.Go(func() {
		defer close(p.gone)
		defer cancel()
		if before != nil {
			<-before.gone
		}
		p.run(ctx)
	})
	return nil
}

// Events returns the stored events behind an id, at most 1000, and a channel that closes at the next event. For an
// id that the box never gave it returns all of them. closed says that the box is stopped: there will be no more.
func (b *Box) Events(after int64) (events []Event, more <-chan struct{}, closed bool) {
	return b.ring.after(after)
}

// Playing says whether a scenario is being played.
func (b *Box) Playing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil {
		return false
	}
	select {
	case <-b.now.gone:
		return false
	default:
		return true
	}
}

// Stop ends the present scenario and waits until nothing runs any more, or ctx ends. It may be called twice.
func (b *Box) Stop(ctx context.Context) error {
	b.mu.Lock()
	b.stopped = true
	if b.now != nil {
		b.now.cancel()
	}
	b.mu.Unlock()
	b.ring.close()
	done := make(chan struct{})
	go func() { b.group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the sandbox: %w", ctx.Err())
	}
}

// emit publishes an event, unless another scenario has begun or Done was published: the cleanup of a world is not
// shown.
func (p *play) emit(e Event) {
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	if p.box.now == p && !p.over {
		p.box.ring.add(e)
		p.over = e.Kind == Done
	}
}

// run plays the scenario in a world of its own.
func (p *play) run(ctx context.Context) {
	if ctx.Err() != nil {
		return // another scenario was chosen while the one before was stopping
	}
	w := newWorld(p.emit)
	done := Event{Kind: Done, Scenario: p.scenario.ID, Note: "ok"}
	if err := p.perform(ctx, w); err != nil {
		done.Error, done.Note = err.Error(), "broken off"
	}
	p.emit(done)
	if err := w.stop(); err != nil {
		p.box.options.Log.Warn("a sandbox did not end in order", "scenario", p.scenario.ID, "err", err)
	}
}

func (p *play) perform(ctx context.Context, w *world) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	s := &stage{world: w, ctx: ctx, ring: p.box.ring, speed: p.box.options.Speed}
	p.scenario.play(s)
	return s.err
}
