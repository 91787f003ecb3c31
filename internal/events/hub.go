// Package events distributes the events of jobs to requests that wait for one job, and to streams. Events are
// hints and may be lost. A waiting request therefore reads the job itself: at the beginning, after each hint,
// after each gap, and every few seconds.
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

// Source delivers events over one subscription, whatever the number of jobs. Listen calls heard with the events in
// their order. It calls up each time the subscription stands; from then on no event is missed. It returns when ctx
// ends or the connection breaks. Neither heard nor up blocks Listen, and Listen calls neither after it has
// returned.
type Source interface {
	Listen(ctx context.Context, heard func([]job.Event), up func()) error
}

// Finder reads the present state of a job.
type Finder interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
}

// Options are the parts that a Hub needs. Log may be nil.
type Options struct {
	Source Source
	Finder Finder
	Log    *slog.Logger
}

const (
	linger   = 5 * time.Second        // how long the subscription stays after the last user left
	redialIn = 100 * time.Millisecond // wait after a subscription broke; doubles up to redialTo
	redialTo = 5 * time.Second
)

// Hub holds at most one subscription, and only while a request or stream uses it. It is safe for concurrent use.
type Hub struct {
	Options
	nonce    string
	life     context.Context // ends with Stop
	end      context.CancelFunc
	draining chan struct{} // closed by Drain
	wanted   loop.Signal   // set when the first user enters
	group    sync.WaitGroup

	mu       sync.Mutex
	started  bool
	stopped  bool
	drained  bool
	users    int // waiting requests, and streams
	hangUp   context.CancelFunc
	goodbye  *time.Timer // runs for linger after the last user left
	standing bool        // the subscription stands
	topics   map[job.ID]*topic
	due      []*topic // topics to read
	readers  int
	streams  map[*Subscription]struct{}
	ring     ring
}

// New makes a hub that receives no events until Start.
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

// Start makes the hub listen whenever a request or stream uses it.
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

// Drain ends every wait and every stream at once. Later requests are answered without waiting. Drain may be called
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

// Stop drains the hub, ends the subscription and waits until all its goroutines have ended, or until ctx ends.
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

// Waiting returns how many requests and streams wait now.
func (h *Hub) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users
}

// enter counts another user; the first one makes the hub listen. The lock is held.
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

// leave counts one user less. The lock is held.
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

// listen holds the subscription while the hub has users, and renews it when it breaks.
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

// up handles a new subscription: earlier events may have been missed, so every topic is read again and every
// stream gets a Resync.
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
		if e.Status == job.Progressed || e.Status == job.Logged { // the job has not moved
			if t := h.topics[e.ID]; t != nil && t.all > 0 {
				h.ask(t)
			}
			continue
		}
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
