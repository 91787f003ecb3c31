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
	patience  = 3 * time.Second // the longest time for one snapshot
	ringSize  = 500             // items of the feed that a listener may have missed and still gets
	behind    = 8               // snapshots that a listener may miss without a resync
	listeners = 200             // the most listeners at once, in this process
)

// HubOptions are what a Hub needs.
type HubOptions struct {
	// Snapshot reads what the dashboard shows: a value that encoding/json can encode. Its context ends after 3 s.
	Snapshot func(context.Context) (any, error)
	// Still says whether the listener of this request may still listen. Optional: by default it may.
	Still func(*http.Request) bool
	Log   *slog.Logger // optional
}

// Hub is the dashboard's stream. It makes one snapshot a second for all listeners together, and none without
// listeners. It also has the feed, whose items each listener gets once. It is safe for concurrent use.
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
	latest    message // the last snapshot; none without listeners
	stale     message // why there is no newer snapshot; none while snapshots succeed
	failing   string  // the text of stale
	feed      []Item  // at least the last ringSize items
	told      uint64  // the number of the feed's last item
}

// message is a text that all listeners get. Its number increases with each new text.
type message struct {
	number uint64
	text   []byte // nil = none
}

// Item is one entry of the feed.
type Item struct {
	ID   string // a listener that sends it as Last-Event-ID, or ?after=, gets the items after it
	Kind string
	Data json.RawMessage
	text []byte
}

// NewHub makes a hub that does nothing until the first listener.
func NewHub(o HubOptions) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	return &Hub{HubOptions: o, nonce: rand.Text()[:8], life: life, end: end, listeners: map[*listener]struct{}{}}
}

// Tell adds an item to the feed. kind is the event's name: one of a few fixed words. Tell does not block.
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

// Recent returns the end of the feed, newest first, for a page that is being opened, and the id to listen after,
// so that no item is missed in between.
func (h *Hub) Recent(most int) (items []Item, after string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.feed) - 1; i >= 0 && len(items) < min(most, ringSize); i-- {
		items = append(items, h.feed[i])
	}
	return items, h.position()
}

// Listeners returns the number of present listeners.
func (h *Hub) Listeners() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners)
}

// Drain ends the streams of all listeners, and at once those of later listeners. It may be called twice.
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

// ended returns when the group is done, or ctx ends.
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

// run makes snapshots while there are listeners. A listener that leaves and comes back within a second finds it
// still running, so that reloading a page makes no additional snapshots.
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

// idle returns true, and marks the hub as not running, if there are no listeners.
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
		return // the listeners know
	default:
		h.Log.Warn("the dashboard's figures could not be read", "err", err)
		h.failing = words(err)
		reason, _ := json.Marshal(map[string]string{"reason": h.failing}) // cannot fail for a string
		h.stale = message{h.stale.number + 1, event("stale", "", reason)}
	}
	h.wake()
}

// read makes one snapshot. It recovers a panic, so that a broken dashboard does not end the server.
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

// words returns a text for users about why there are no new numbers. The log has the details.
func words(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "a store that this request needs did not answer in time"
	case errors.Is(err, job.ErrUnavailable), errors.Is(err, job.ErrAmbiguous):
		return "a store that this request needs does not answer"
	}
	return "internal error; the server's log has the cause"
}
