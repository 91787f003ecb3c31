package events

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

const (
	maxReaders  = 16              // reads under way at once, over all jobs
	readTimeout = 3 * time.Second // per read
)

// topic is a job that somebody waits for. Its reads are shared: one at a time, and however many ask while one is under
// way, one more.
type topic struct {
	id      job.ID
	waiters map[*waiter]struct{}
	curious int // waiters who look at every change, not at the end only

	due     bool // asked for, and not yet begun
	moved   bool // an event since the last read began was not worth one
	reading bool
	begun   int // reads so far
	latest  state
}

// state is what a read found, or what this process made of the job itself.
type state struct {
	job  job.Job
	err  error
	read int // its number, from 1; 0 = none yet
}

// final says that nothing follows: a job that failed may be requeued, one that is completed or cancelled may not.
func (s *state) final() bool {
	return s.err == nil && (s.job.Status == job.Completed || s.job.Status == job.Cancelled)
}

// waiter is one request that waits. wake tells it that its topic was read.
type waiter struct {
	topic   *topic
	since   int // only reads from this one on began after the waiter had come
	curious bool
	wake    loop.Signal
}

// join registers a waiter and has its job read. After Stop there is none.
func (h *Hub) join(id job.ID, curious bool) *waiter {
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
	w := &waiter{topic: t, since: t.begun + 1, curious: curious, wake: loop.NewSignal()}
	t.waiters[w] = struct{}{}
	if curious {
		t.curious++
	}
	h.enter()
	h.ask(t)
	return w
}

func (h *Hub) part(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.topic
	if w.curious {
		t.curious--
	}
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

// renew has a waiter's job read if it has moved since, for an answer that is no end: only that read is fresh then.
func (h *Hub) renew(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.topic.moved || h.stopped {
		return false
	}
	w.since = w.topic.begun + 1
	h.ask(w.topic)
	return true
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
		if len(t.waiters) == 0 || t.settled() {
			continue
		}
		t.reading, t.moved = true, false
		t.begun++
		number := t.begun
		h.mu.Unlock()
		j, err := h.find(t.id)
		h.mu.Lock()
		t.reading = false
		if t.latest.read < number {
			t.learn(state{j, err, number})
		}
		if t.due {
			h.due = append(h.due, t)
		}
	}
	h.readers--
}

// learn keeps a state and tells who waits. The lock is held.
func (t *topic) learn(s state) {
	t.latest = s
	for w := range t.waiters {
		w.wake.Set()
	}
}

// settled says that all who wait have what there will ever be to see. The lock is held.
func (t *topic) settled() bool {
	if !t.latest.final() {
		return false
	}
	for w := range t.waiters {
		if w.since > t.latest.read {
			return false
		}
	}
	return true
}

// Ended takes a job that this process has just completed, as Find shows it: who waits for it here gets it without a
// read, and before its event comes. Of a job without a result, and of one that nobody here waits for, it takes no
// notice. The hub keeps the result, not the job.
func (h *Hub) Ended(j *job.Job) {
	if j.Status != job.Completed || j.Result == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[j.ID]
	if t == nil {
		return
	}
	t.begun++ // a read that is under way may have seen the job before this
	t.learn(state{job: shown(*j), read: t.begun})
}

// shown is a job without what nobody who waits is shown; thousands may wait.
func shown(j job.Job) job.Job {
	j.Payload, j.Checkpoint = nil, nil
	return j
}

// find is not tied to any one request: others share it.
func (h *Hub) find(id job.ID) (job.Job, error) {
	ctx, cancel := context.WithTimeout(h.life, readTimeout)
	defer cancel()
	j, err := h.Finder.Find(ctx, id)
	if err != nil && ctx.Err() != nil {
		err = errNoAnswer
	}
	return shown(j), err
}

// latest is what the last read found; fresh says that it began after the waiter had come.
func (h *Hub) latest(w *waiter) (s state, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s = w.topic.latest
	return s, s.read >= w.since
}

var errNoAnswer = fmt.Errorf("read job: no answer: %w", job.ErrUnavailable)
