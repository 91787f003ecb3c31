package pages

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

const comeAgain = 5 * time.Second // Retry-After if there are too many listeners

// listener is the position of one browser in the stream. There is no queue per listener: a slow listener gets the
// latest snapshot, and the feed from its position.
type listener struct {
	wake     loop.Signal // set when there is something new
	snapshot uint64
	stale    uint64
	feed     uint64
	lost     bool // it asked for a position that is unknown
}

// wake wakes all listeners. The caller holds the lock.
func (h *Hub) wake() {
	for l := range h.listeners {
		l.wake.Set()
	}
}

// join adds a listener that has read up to an id; "" = from now on. It returns nil if there are too many
// listeners.
func (h *Hub) join(lastID string) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= listeners {
		return nil
	}
	l := &listener{wake: loop.NewSignal(), snapshot: h.latest.number, feed: h.told}
	if h.latest.text != nil {
		l.snapshot--
	}
	if h.stale.text == nil {
		l.stale = h.stale.number
	}
	if lastID != "" {
		digits, ours := strings.CutPrefix(lastID, h.nonce+"-")
		n, err := strconv.ParseUint(digits, 10, 64)
		if l.lost = !ours || err != nil || n > h.told; !l.lost {
			l.feed = n
		}
	}
	h.listeners[l] = struct{}{}
	if !h.running && !h.drained {
		h.running = true
		h.group.Go(h.run)
	}
	return l
}

func (h *Hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// next returns what a listener has not read yet, and whether the stream ends with that.
func (h *Hub) next(l *listener) (text []byte, bye bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed := h.told - l.feed
	if l.lost || missed > ringSize || h.latest.number-l.snapshot > behind {
		text = append(text, event("resync", h.position(), []byte("{}"))...)
	}
	if l.lost || missed > ringSize { // all items that are stored; the page skips those that it has
		missed = uint64(min(len(h.feed), ringSize))
	}
	for _, item := range h.feed[len(h.feed)-int(missed):] {
		text = append(text, item.text...)
	}
	l.feed, l.lost = h.told, false
	if h.latest.text != nil && h.latest.number > l.snapshot {
		text = append(text, h.latest.text...)
	}
	l.snapshot = h.latest.number
	if h.stale.text != nil && h.stale.number > l.stale {
		text = append(text, h.stale.text...)
	}
	l.stale = h.stale.number
	if h.drained {
		text = append(text, event("bye", "", []byte("{}"))...)
	}
	return text, h.drained
}

// position returns the id of the feed's last item. The caller holds the lock.
func (h *Hub) position() string { return h.nonce + "-" + strconv.FormatUint(h.told, 10) }

// ServeHTTP serves the stream as Server-Sent Events. The events are "snapshot"; the kinds of the feed; "stale",
// with a reason, if there is no new snapshot; "resync", followed by all stored items, if the listener was too slow
// or away for too long; and "bye" when the process ends. The stream continues behind the header Last-Event-ID, or
// else the parameter after. If there are too many listeners, the answer is 503 with a Retry-After.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lastID := r.Header.Get("Last-Event-ID")
	if lastID == "" {
		lastID = r.URL.Query().Get("after")
	}
	l := h.join(lastID)
	if l == nil {
		writeProblem(w, &apiError{Status: http.StatusServiceUnavailable, Code: "SYSTEM_UNHEALTHY",
			Detail: "too many dashboards are open", RetryAfter: comeAgain})
		return
	}
	defer h.leave(l)
	s := newSSE(w)
	// An id without data is no event, but the browser stores it, so that it gets the items published while it is
	// away.
	begin := "retry: 2000\n\n"
	if !l.lost {
		begin = "retry: 2000\nid: " + h.nonce + "-" + strconv.FormatUint(l.feed, 10) + "\n\n"
	}
	if !s.write([]byte(begin)) {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		text, bye := h.next(l)
		if !s.write(text) || bye {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-l.wake:
		case <-ping.C:
			if h.Still != nil && !h.Still(r) || !s.write([]byte(": ping\n\n")) {
				return
			}
		}
	}
}
