// Package sandbox is the queue in a box behind /demo: a real tierq with a Redis of its own in memory, plans in a hurry
// and workers that can be cut off, on which scenarios are played. Whatever a viewer sees is an event of something that
// happened: told.go turns the calls of scripts into events, with the keys they touched. Only the archive is not the
// real one: it is a map.
//
// A Box plays one scenario at a time, each on an empty queue (world.go), which is gone when the scenario is over: what
// is left are its events. A Manager keeps a box per browser session.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// The reasons why nothing is played.
var (
	ErrUnknown = errors.New("no such scenario")
	ErrStopped = errors.New("the box is stopped")
)

// playBound is the longest that a scenario may take; all are through in a quarter of it.
const playBound = time.Minute

// Options are a box's. The zero value is fine.
type Options struct {
	// of the narrator, who waits after each caption: 2 = half as long; not positive = 1. The queue's own times are what
	// they are
	Speed float64
	After int64 // ids begin behind it
	// of what goes wrong with the box itself; what its workers and watches log is nobody's concern. nil = none
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

// play is one scenario under way.
type play struct {
	scenario Scenario
	cancel   context.CancelFunc
	gone     chan struct{} // closed when nothing of it runs any more
	box      *Box
	over     bool // Done is told; under Box.mu
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

// Play begins a scenario and returns: its events tell how it goes, from Began to Done. One that is under way is broken
// off and its events are forgotten. The scenario goes on when ctx ends. The errors are ErrUnknown and ErrStopped.
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

// Events is what is kept of the events behind an id, at most 1000, and a channel that closes when there is more. An id
// that the box never gave gets all of them. closed says that the box is stopped: nothing comes any more.
func (b *Box) Events(after int64) (events []Event, more <-chan struct{}, closed bool) {
	return b.ring.after(after)
}

// Playing says whether a scenario is under way.
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

// Stop breaks off what is played and waits until nothing runs any more, or ctx ends. It may be called twice.
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

// emit tells an event, unless another scenario has taken over or this one is over: how its world ends is no part of it.
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
		return // another one was chosen while the one before this came down
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
