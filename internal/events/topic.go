package events

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

const (
	maxReaders  = 16              // concurrent reads, over all jobs
	readTimeout = 3 * time.Second // per read
)

// topic is a job that requests wait for. Its waiters share reads: one read is under way at a time, and all
// requests for a read during it share the next one.
type topic struct {
	id      job.ID
	waiters map[*waiter]struct{}
	curious int // waiters for every move, not only for the end
	all     int // those of them that wait for progress and for lines of the log, too

	due     bool // a read was requested and has not begun
	moved   bool // an event since the last read began that caused no read
	reading bool
	begun   int // number of the last read that began
	latest  state
}

// state is the result of a read, or of Ended.
type state struct {
	job  job.Job
	err  error
	read int // the read's number, from 1; 0 = none yet
}

// final says that no state follows: only a failed job is requeued.
func (s *state) final() bool {
	return s.err == nil && s.job.Status.Final()
}

// waiter is one waiting request. wake is set when its topic has a new state.
type waiter struct {
	topic *topic
	since int // the first read that began after the waiter had come
	of    interest
	wake  loop.Signal
}

// interest says which events of its job wake a waiter.
type interest int

const (
	endOnly  interest = iota
	eachMove          // each move of the job
	eachNews          // each move, progress and new lines of the log
)

// join registers a waiter and requests a read of its job. It returns nil after Stop.
func (h *Hub) join(id job.ID, of interest) *waiter {
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
	w := &waiter{topic: t, since: t.begun + 1, of: of, wake: loop.NewSignal()}
	t.waiters[w] = struct{}{}
	t.count(of, 1)
	h.enter()
	h.ask(t)
	return w
}

func (h *Hub) part(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.topic
	t.count(w.of, -1)
	if delete(t.waiters, w); len(t.waiters) == 0 && h.topics[t.id] == t {
		delete(h.topics, t.id)
	}
	h.leave()
}

// count counts n more waiters of an interest. The lock is held.
func (t *topic) count(of interest, n int) {
	if of >= eachMove {
		t.curious += n
	}
	if of == eachNews {
		t.all += n
	}
}

// refresh requests another read of a waiter's job.
func (h *Hub) refresh(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask(w.topic)
}

// renew requests a read of a waiter's job if the job has moved since the last one. From then on only that read
// counts as fresh for the waiter. It returns false if no read is needed, or after Stop.
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

// ask requests a read of a topic, unless one is due already. The lock is held.
func (h *Hub) ask(t *topic) {
	if t.due || h.stopped {
		return
	}
	t.due = true
	if t.reading {
		return // its reader puts the topic back
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

// learn stores a state and wakes the waiters. The lock is held.
func (t *topic) learn(s state) {
	t.latest = s
	for w := range t.waiters {
		w.wake.Set()
	}
}

// settled says that every waiter has a final state, so that no read is needed. The lock is held.
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

// Ended takes a job that this process has just completed, as Find would return it. Waiters of this hub get it
// without a read and before its event arrives. Ended ignores a job without a result, and a job without waiters.
// The hub keeps the result, but no reference to the job.
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
	t.begun++ // a read under way may have seen an earlier state
	t.learn(state{job: shown(*j), read: t.begun})
}

// shown removes the parts of a job that no waiter is shown, because thousands may wait.
func shown(j job.Job) job.Job {
	j.Payload, j.Checkpoint = nil, nil
	return j
}

// find reads a job. It is bound to no request's context, because several requests share the read.
func (h *Hub) find(id job.ID) (job.Job, error) {
	ctx, cancel := context.WithTimeout(h.life, readTimeout)
	defer cancel()
	j, err := h.Finder.Find(ctx, id)
	if err != nil && ctx.Err() != nil {
		err = errNoAnswer
	}
	return shown(j), err
}

// latest returns the latest state; fresh says whether its read began after the waiter had come.
func (h *Hub) latest(w *waiter) (s state, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s = w.topic.latest
	return s, s.read >= w.since
}

var errNoAnswer = fmt.Errorf("read job: no answer: %w", job.ErrUnavailable)
