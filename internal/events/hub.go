// Package events fans out what happens to jobs: to requests that wait for one job, and to streams. Events are hints and
// may be lost; whoever waits reads the job itself, at the beginning, after each hint, after each gap, and every few
// seconds in any case.
package events

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Source is where events come from: one subscription, whatever the number of jobs. Listen calls heard with the events
// in their order, and up each time the subscription stands, from when on nothing is missed; it returns when ctx ends or
// the connection breaks. Neither call blocks it, and neither comes after it has returned.
type Source interface {
	Listen(ctx context.Context, heard func([]job.Event), up func()) error
}

// Finder reads a job as it stands.
type Finder interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
}

// Options are what a Hub needs. Log may be nil.
type Options struct {
	Source Source
	Finder Finder
	Log    *slog.Logger
}

const (
	linger   = 5 * time.Second        // how long the subscription outlives the last who waits
	redialIn = 100 * time.Millisecond // after a subscription broke; doubles
	redialTo = 5 * time.Second
)

// Hub holds at most one subscription, and only while somebody waits. It is safe for concurrent use.
type Hub struct {
	Options
	nonce    string
	life     context.Context // until Stop
	end      context.CancelFunc
	draining chan struct{} // closed by Drain
	wanted   loop.Signal   // somebody waits
	group    sync.WaitGroup

	mu       sync.Mutex
	started  bool
	stopped  bool
	drained  bool
	users    int // who wait, and streams
	hangUp   context.CancelFunc
	goodbye  *time.Timer // the last one left
	standing bool        // the subscription stands
	topics   map[job.ID]*topic
	due      []*topic // to be read
	readers  int
	streams  map[*Subscription]struct{}
	ring     ring
}

// New makes a hub that hears nothing until Start.
func New(o Options) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	return &Hub{
		Options: o, nonce: rand.Text()[:8], life: life, end: end,
		draining: make(chan struct{}), wanted: loop.NewSignal(),
		topics: map[job.ID]*topic{}, streams: map[*Subscription]struct{}{},
	}
}

// Start makes the hub listen whenever somebody waits.
func (h *Hub) Start(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.stopped {
		return nil
	}
	h.started = true
	h.group.Go(h.run)
	return nil
}

// Drain ends every wait and every stream at once; those that come later are answered without waiting. It may be called
// twice.
func (h *Hub) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drained {
		return
	}
	h.drained = true
	close(h.draining)
	for s := range h.streams {
		s.bye()
		h.remove(s)
	}
}

// Stop drains, hangs up and waits until nothing runs any more, or ctx ends.
func (h *Hub) Stop(ctx context.Context) error {
	h.Drain()
	h.mu.Lock()
	h.stopped = true
	if h.goodbye != nil {
		h.goodbye.Stop()
	}
	h.mu.Unlock()
	h.end()
	return loop.Waited(ctx, &h.group)
}

// Waiting is how many requests and streams wait now.
func (h *Hub) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users
}

// enter counts one more who waits; the first makes the hub listen. The lock is held.
func (h *Hub) enter() {
	h.users++
	if h.goodbye != nil {
		h.goodbye.Stop()
		h.goodbye = nil
	}
	if h.users == 1 {
		h.wanted.Set()
	}
}

// leave counts one less. The lock is held.
func (h *Hub) leave() {
	h.users--
	if h.users > 0 || h.stopped {
		return
	}
	h.goodbye = time.AfterFunc(linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.users > 0 {
			return
		}
		if h.goodbye = nil; h.hangUp != nil {
			h.hangUp()
		}
	})
}

func (h *Hub) run() {
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.wanted:
		}
		h.listen()
	}
}

// listen holds the subscription while somebody waits, and takes it up again when it breaks.
func (h *Hub) listen() {
	pause := redialIn
	for h.life.Err() == nil {
		h.mu.Lock()
		if h.users == 0 && h.goodbye == nil {
			h.mu.Unlock()
			return
		}
		ctx, hangUp := context.WithCancel(h.life)
		h.hangUp = hangUp
		h.mu.Unlock()
		err := h.Source.Listen(ctx, h.heard, h.up)
		ended := ctx.Err() != nil
		hangUp()
		h.mu.Lock()
		if h.standing {
			pause = redialIn
		}
		h.hangUp, h.standing = nil, false
		h.mu.Unlock()
		if ended {
			continue
		}
		h.Log.Warn("the events' subscription broke", "err", err, "next_in", pause)
		select {
		case <-h.life.Done():
		case <-time.After(pause):
		}
		pause = min(pause*2, redialTo)
	}
}

// up begins a new stretch of events: what happened before it may have been missed, so everything is read anew.
func (h *Hub) up() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = true
	h.ring.gap()
	for s := range h.streams {
		s.send(job.Message{ID: h.position(), Resync: true})
	}
	for _, t := range h.topics {
		h.ask(t)
	}
}

func (h *Hub) heard(events []job.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.ring.add(e)
		for s := range h.streams {
			s.offer(job.Message{ID: h.position(), Event: e})
		}
		switch t := h.topics[e.ID]; {
		case t == nil:
		case t.curious > 0 || e.Status.Ended():
			h.ask(t)
		default:
			t.moved = true
		}
	}
}
