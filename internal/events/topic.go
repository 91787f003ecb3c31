package events

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	maxReaders  = 16              // reads under way at once, over all jobs
	readTimeout = 3 * time.Second // per read
)

// topic is a job that somebody waits for. Its reads are shared: one at a time, and however many ask while one is under way, one more.
type topic struct {
	id      job.ID
	waiters map[*waiter]struct{}

	due     bool // asked for, and not yet begun
	reading bool
	begun   int // reads so far
	latest  state
}

// state is what a read found.
type state struct {
	job  job.Job
	err  error
	read int // its number, from 1; 0 = none yet
}

// waiter is one request that waits. wake tells it that its topic was read.
type waiter struct {
	topic *topic
	since int // only reads from this one on began after the waiter had come
	wake  chan struct{}
}

// join registers a waiter and has its job read. After Stop there is none.
func (h *Hub) join(id job.ID) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	t := h.topics[id]
	if t == nil {
		t = &topic{id: id, waiters: map[*waiter]struct{}{}}
		h.topics[id] = t
	}
	w := &waiter{topic: t, since: t.begun + 1, wake: make(chan struct{}, 1)}
	t.waiters[w] = struct{}{}
	h.enter()
	h.ask(t)
	return w
}

func (h *Hub) part(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.topic
	if delete(t.waiters, w); len(t.waiters) == 0 && h.topics[t.id] == t {
		delete(h.topics, t.id)
	}
	h.leave()
}

// refresh has a waiter's job read once more.
func (h *Hub) refresh(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask(w.topic)
}

// ask has a topic read: by the read that is due already, or by one more. The lock is held.
func (h *Hub) ask(t *topic) {
	if t.due || h.stopped {
		return
	}
	t.due = true
	if t.reading {
		return // its reader puts it back
	}
	h.due = append(h.due, t)
	if h.readers < maxReaders {
		h.readers++
		h.group.Go(h.read)
	}
}

// read reads topics until none is due.
func (h *Hub) read() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.due) > 0 {
		t := h.due[0]
		h.due[0] = nil
		h.due = h.due[1:]
		t.due = false
		if len(t.waiters) == 0 {
			continue
		}
		t.reading = true
		t.begun++
		h.mu.Unlock()
		j, err := h.find(t.id)
		h.mu.Lock()
		t.reading = false
		t.latest = state{j, err, t.begun}
		for w := range t.waiters {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
		if t.due {
			h.due = append(h.due, t)
		}
	}
	h.readers--
}

// find is not tied to any one request: others share it.
func (h *Hub) find(id job.ID) (job.Job, error) {
	ctx, cancel := context.WithTimeout(h.life, readTimeout)
	defer cancel()
	j, err := h.Finder.Find(ctx, id)
	j.Payload = nil // nobody who waits is shown it, and thousands may
	if err != nil && ctx.Err() != nil {
		err = errNoAnswer
	}
	return j, err
}

// latest is what the last read found; fresh says that it began after the waiter had come.
func (h *Hub) latest(w *waiter) (s state, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s = w.topic.latest
	return s, s.read >= w.since
}

var errNoAnswer = fmt.Errorf("read job: no answer: %w", job.ErrUnavailable)
