package events

import (
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

const (
	ringSize = 1024 // events that a reader may have missed and still gets
	buffered = 256  // messages that a slow reader may be behind
)

// ring keeps the latest events of an unbroken stretch. Events are numbered from 1; the number of a gap is nobody's.
type ring struct {
	events []job.Event // of numbers last-len+1 .. last, from at on
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

// gap forgets all: something may have happened that was not heard.
func (r *ring) gap() {
	r.last++
	r.events, r.at = r.events[:0], 0
}

// after returns the events that follow a number, and whether it is known that these are all.
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

// Subscription is one reader of all events.
type Subscription struct {
	hub      *Hub
	messages chan job.Message
	gone     bool // closed; the hub's lock guards it
}

// C gets the messages. It is closed after a Bye, or by Close.
func (s *Subscription) C() <-chan job.Message { return s.messages }

// Close ends the subscription. It may be called twice.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.remove(s)
}

// Stream gives every event from now on, or, with the id of the last message that was read, from there on. What cannot
// be told any more, be it from before the call or because the reader is too slow, is told as a Resync in its place.
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

// missed are the events after a message; whole says that they are all there. The lock is held.
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

// position names the latest event, or gap. The lock is held.
func (h *Hub) position() string { return h.name(h.ring.last) }

func (h *Hub) name(n uint64) string { return h.nonce + "-" + strconv.FormatUint(n, 10) }

// offer sends a message, and if there is no room, a Resync in place of all that was not read yet. The lock is held.
func (s *Subscription) offer(m job.Message) {
	if len(s.messages) < cap(s.messages) {
		s.messages <- m
		return
	}
	s.send(job.Message{ID: m.ID, Resync: true})
}

// send makes room if there is none, and sends. Nobody else sends while the lock is held, so it does not block.
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

// bye is the last message. It has no id: where it pushes out what was not read yet, the reader resumes from what it
// has.
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
