package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	breath     = 600 * time.Millisecond // the wait after a caption
	awaitBound = 20 * time.Second       // the longest wait for one event
)

// stage is what a scenario uses to act. After the first error, which is in err, its methods do nothing.
type stage struct {
	*world
	ctx   context.Context
	ring  *ring
	speed float64
	err   error
}

// say explains what happens next or has just happened, and names the file with the rule.
func (s *stage) say(file, format string, args ...any) {
	if s.err != nil {
		return
	}
	s.emit(Event{Kind: Caption, File: file, Note: fmt.Sprintf(format, args...)})
	t := time.NewTimer(time.Duration(float64(breath) / s.speed))
	defer t.Stop()
	select {
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
	case <-t.C:
	}
}

// hire starts a worker.
func (s *stage) hire(name string, slots int) *worker {
	if s.err == nil {
		s.err = s.world.hire(s.ctx, name, slots)
	}
	return s.workers[name]
}

// crew starts the workers of most scenarios, with three slots together.
func (s *stage) crew() {
	s.hire("worker-a", 1)
	s.hire("worker-b", 2)
}

// submit submits a job that must be accepted.
func (s *stage) submit(t job.Tier, what job.Submission) job.ID {
	id, err := s.try(t, what)
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("submit to %s: %w", t, err)
	}
	return id
}

// try submits a job that may be refused.
func (s *stage) try(t job.Tier, what job.Submission) (job.ID, error) {
	if s.err != nil {
		return "", s.err
	}
	what.Tier = t
	accepted, err := s.door.Submit(s.ctx, what)
	if errors.Is(err, job.ErrUnhealthy) { // no script was called, so no event tells of it yet
		s.emit(Event{Kind: JobRefused, Tier: t, Note: err.Error()})
	}
	if err == nil {
		s.wake()
	}
	return accepted.ID, err
}

// refused submits a job that must be refused for a given reason.
func (s *stage) refused(t job.Tier, what job.Submission, reason error) {
	if _, err := s.try(t, what); s.err == nil && !errors.Is(err, reason) {
		s.err = errors.Join(fmt.Errorf("a submit to %s that should end as: %w, did not", t, reason), err)
	}
}

// await waits for an event of this scenario, past or future, and returns it.
func (s *stage) await(what string, match func(e *Event) bool) Event {
	if s.err != nil {
		return Event{}
	}
	ctx, cancel := context.WithTimeout(s.ctx, awaitBound)
	defer cancel()
	for seen := int64(0); ; {
		events, more, _ := s.ring.after(seen)
		for i := range events {
			if match(&events[i]) {
				return events[i]
			}
			seen = events[i].ID
		}
		select {
		case <-more:
		case <-ctx.Done():
			s.err = fmt.Errorf("wait for %s: %w", what, ctx.Err())
			return Event{}
		}
		if s.ctx.Err() != nil { // the channel of a stopped box stays closed
			s.err = s.ctx.Err()
			return Event{}
		}
	}
}

// until waits for the first event of a kind of each job.
func (s *stage) until(kind Kind, ids ...job.ID) {
	for _, id := range ids {
		s.await(fmt.Sprintf("%s of %s", kind, id), func(e *Event) bool { return e.Kind == kind && e.Job == id })
	}
}

// untilGate waits for an event of the gate.
func (s *stage) untilGate(what string, match func(e *Event) bool) {
	s.await(what, func(e *Event) bool { return e.Kind == GateChanged && match(e) })
}
