package events

import (
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

const (
	ringSize = 1024 // events that a reader may have missed and can still get
	buffered = 256  // messages that may wait for a slow reader
)

// ring keeps the latest events since the last gap. Events are numbered from 1, and a gap takes a number too.
type ring struct {
	events []job.Event // those with numbers last-len+1 .. last, beginning at index at
	at     int
	last   uint64
}

func (r *ring) add(e job.Event) {
	r.last++
	if len(r.events) < ringSize {
		r.events = append(r.events, e)
		return
	}
	r.events[r.at] = e
	r.at = (r.at + 1) % ringSize
}

// gap removes all events, because later events may have been missed.
func (r *ring) gap() {
	r.last++
	r.events, r.at = r.events[:0], 0
}

// after returns the events that follow number n, and whether they are certainly complete.
func (r *ring) after(n uint64) ([]job.Event, bool) {
	if n > r.last || r.last-n > uint64(len(r.events)) {
		return nil, false
	}
	missed := int(r.last - n)
	events := make([]job.Event, 0, missed)
	for i := len(r.events) - missed; i < len(r.events); i++ {
		events = append(events, r.events[(r.at+i)%len(r.events)])
	}
	return events, true
}

// Subscription is a reader of all events.
type Subscription struct {
	hub      *Hub
	messages chan job.Message
	gone     bool // closed; guarded by the hub's lock
}

// C returns the channel of messages. It is closed after a Bye, or by Close.
func (s *Subscription) C() <-chan job.Message { return s.messages }

// Close ends the subscription. It may be called twice.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.remove(s)
}

// Stream returns a subscription to all events from now on or, with the id of the last message that was read, to
// all events after that message. Events that are no longer available, because they came before the call or because
// the reader is too slow, are replaced by a Resync.
func (h *Hub) Stream(lastID string) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed, whole := h.missed(lastID)
	s := &Subscription{hub: h, messages: make(chan job.Message, buffered+len(missed))}
	h.streams[s] = struct{}{}
	h.enter()
	if !whole {
		s.send(job.Message{ID: h.position(), Resync: true})
	}
	for i, e := range missed {
		s.send(job.Message{ID: h.name(h.ring.last - uint64(len(missed)-1-i)), Event: e})
	}
	if h.drained {
		s.bye()
		h.remove(s)
	}
	return s
}

// missed returns the events after a message; whole says that they are complete. The lock is held.
func (h *Hub) missed(lastID string) (events []job.Event, whole bool) {
	if lastID == "" {
		return nil, true
	}
	digits, ours := strings.CutPrefix(lastID, h.nonce+"-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ours || err != nil {
		return nil, false
	}
	return h.ring.after(n)
}

// position returns the id of the latest event or gap. The lock is held.
func (h *Hub) position() string { return h.name(h.ring.last) }

func (h *Hub) name(n uint64) string { return h.nonce + "-" + strconv.FormatUint(n, 10) }

// offer sends a message. If the buffer is full, offer replaces all unread messages by a Resync. The lock is held.
func (s *Subscription) offer(m job.Message) {
	if len(s.messages) < cap(s.messages) {
		s.messages <- m
		return
	}
	s.send(job.Message{ID: m.ID, Resync: true})
}

// send sends a message and, if the buffer is full, first drops the unread messages. It does not block, because the
// lock is held and no other goroutine sends.
func (s *Subscription) send(m job.Message) {
	for len(s.messages) == cap(s.messages) {
		s.empty()
	}
	s.messages <- m
}

func (s *Subscription) empty() {
	for {
		select {
		case <-s.messages:
		default:
			return
		}
	}
}

// bye sends the last message. It has no id: if it replaces unread messages, the reader resumes from its last id.
func (s *Subscription) bye() { s.send(job.Message{Bye: true}) }

// remove closes a subscription. The lock is held.
func (h *Hub) remove(s *Subscription) {
	if s.gone {
		return
	}
	s.gone = true
	close(s.messages)
	delete(h.streams, s)
	h.leave()
}
