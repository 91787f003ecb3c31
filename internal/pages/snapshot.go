package pages

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	every     = time.Second     // between two snapshots
	patience  = 3 * time.Second // what making one may take
	ringSize  = 500             // items of the feed that a listener may have missed and still gets
	behind    = 8               // snapshots that a listener may miss before it is told
	listeners = 200             // at once, in this process
)

// HubOptions are what a Hub needs.
type HubOptions struct {
	// Snapshot reads what the dashboard shows: something that encoding/json can write. Its context ends after 3 s.
	Snapshot func(context.Context) (any, error)
	// Still says whether who began to listen with this request may go on. Optional: he may.
	Still func(*http.Request) bool
	Log   *slog.Logger // optional
}

// Hub is the dashboard's stream: one snapshot a second, made once for all who listen and not at all while nobody does,
// and the feed, items that each listener gets once. It is safe for concurrent use.
type Hub struct {
	HubOptions
	nonce string
	life  context.Context // until Stop
	end   context.CancelFunc
	group sync.WaitGroup

	mu        sync.Mutex
	listeners map[*listener]struct{}
	running   bool
	drained   bool
	latest    message // the last snapshot; none while nobody listens
	stale     message // why there is no newer one; none while all is well
	failing   string  // the same, in words
	feed      []Item  // the last ringSize
	told      uint64  // the number of the last item of the feed
}

// message is what every listener gets the same of; its number grows with each.
type message struct {
	number uint64
	text   []byte // nil = none
}

// Item is one entry of the feed.
type Item struct {
	ID   string // a listener that gives it as Last-Event-ID, or ?after=, gets what follows
	Kind string
	Data json.RawMessage
	text []byte
}

// NewHub makes a hub that does nothing until somebody listens.
func NewHub(o HubOptions) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	return &Hub{HubOptions: o, nonce: rand.Text()[:8], life: life, end: end, listeners: map[*listener]struct{}{}}
}

// Tell adds to the feed. kind is the event's name: one of a few fixed words. It does not block.
func (h *Hub) Tell(kind string, item any) {
	data, err := json.Marshal(item)
	if err != nil {
		h.Log.Error("an item of the feed cannot be written", "kind", kind, "err", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
	id := h.position()
	h.feed = append(h.feed, Item{id, kind, data, event(kind, id, data)})
	if len(h.feed) >= 2*ringSize {
		h.feed = append([]Item(nil), h.feed[len(h.feed)-ringSize:]...)
	}
	h.wake()
}

// Recent is the end of the feed, newest first, for a page that is opened; and the id to listen after, so that nothing
// is missed between.
func (h *Hub) Recent(most int) (items []Item, after string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.feed) - 1; i >= 0 && len(items) < min(most, ringSize); i-- {
		items = append(items, h.feed[i])
	}
	return items, h.position()
}

// Listeners is how many listen now.
func (h *Hub) Listeners() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners)
}

// Drain says goodbye to all who listen, and at once to those who come later. It may be called twice.
func (h *Hub) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained = true
	h.wake()
}

// Stop drains, and returns when no snapshot is being made any more, or ctx ends.
func (h *Hub) Stop(ctx context.Context) error {
	h.Drain()
	h.end()
	return ended(ctx, &h.group)
}

// ended returns when all of a group have, or ctx does.
func ended(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes snapshots as long as somebody listens. Whoever leaves and comes back within a second finds it running:
// nobody can have more than one a second made.
func (h *Hub) run() {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		h.runOnce()
		select {
		case <-h.life.Done():
		case <-ticker.C:
		}
		if h.idle() {
			return
		}
	}
}

// idle says whether nobody listens, and if so ends the running.
func (h *Hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) > 0 && h.life.Err() == nil {
		return false
	}
	h.running = false
	h.latest.text, h.stale.text, h.failing = nil, nil, ""
	return true
}

func (h *Hub) runOnce() {
	ctx, cancel := context.WithTimeout(h.life, patience)
	data, err := h.read(ctx)
	cancel()
	if h.life.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.latest = message{h.latest.number + 1, event("snapshot", "", data)}
		h.stale.text, h.failing = nil, ""
	case h.failing == words(err):
		return // they know
	default:
		h.Log.Warn("the dashboard has no news", "err", err)
		h.failing = words(err)
		reason, _ := json.Marshal(map[string]string{"reason": h.failing}) // a string cannot fail
		h.stale = message{h.stale.number + 1, event("stale", "", reason)}
	}
	h.wake()
}

// read makes one snapshot. A dashboard that breaks does not take the server with it.
func (h *Hub) read(ctx context.Context) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			data, err = nil, fmt.Errorf("panic: %v", value)
		}
	}()
	snapshot, err := h.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(snapshot)
}

// words say to a user why there are no new numbers. What is not his to know is in the log.
func words(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "a store that this needs did not answer in time"
	case errors.Is(err, job.ErrUnavailable), errors.Is(err, job.ErrAmbiguous):
		return "a store that this needs does not answer"
	}
	return "something went wrong inside; the cause is in the server's log"
}
