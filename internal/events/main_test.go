package events

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someID job.ID = "019de340-01fe-7a58-be69-567cd7d6b700"

// line is a source that the test controls.
type line struct {
	mu      sync.Mutex
	listens int
	open    int
	heard   func([]job.Event)
	up      func()
	dead    bool // Listen fails
	broken  chan error
}

func newLine() *line { return &line{broken: make(chan error)} }

func (l *line) Listen(ctx context.Context, heard func([]job.Event), up func()) error {
	l.mu.Lock()
	l.listens++
	l.heard, l.up = heard, up
	dead := l.dead
	if !dead {
		l.open++
	}
	l.mu.Unlock()
	if dead {
		return job.ErrUnavailable
	}
	defer func() {
		l.mu.Lock()
		l.open--
		l.mu.Unlock()
	}()
	up()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-l.broken:
		return err
	}
}

func (l *line) counts() (listens, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listens, l.open
}

func (l *line) tell(events ...job.Event) {
	l.mu.Lock()
	heard := l.heard
	l.mu.Unlock()
	heard(events)
}

// world is a finder that the test controls.
type world struct {
	mu    sync.Mutex
	jobs  map[job.ID]job.Job
	err   error
	reads int
	hold  chan struct{} // a read returns when it can receive; nil = at once
}

func (w *world) Find(ctx context.Context, id job.ID) (job.Job, error) {
	w.mu.Lock()
	w.reads++
	hold, err := w.hold, w.err
	j, ok := w.jobs[id]
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return job.Job{}, ctx.Err()
		}
	}
	switch {
	case err != nil:
		return job.Job{}, err
	case !ok:
		return job.Job{}, job.ErrNotFound
	}
	return j, nil
}

func (w *world) set(id job.ID, s job.Status, attempt int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs = map[job.ID]job.Job{}
	}
	w.jobs[id] = job.Job{ID: id, Status: s, Attempt: attempt, Generation: 1}
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *world) read() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

// inBubble runs a test in virtual time, with a started hub.
func inBubble(t *testing.T, test func(t *testing.T, h *Hub, l *line, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLine(), &world{}
		w.set(someID, job.Pending, 0)
		h := New(Options{Source: l, Finder: w})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := h.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		test(t, h, l, w)
	})
}

type answer struct {
	job job.Job
	err error
}

// wait waits in the background for the end of a job, and reads every change.
func wait(ctx context.Context, h *Hub, id job.ID) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		j, err := h.Await(ctx, id, func(j *job.Job) bool { return j.Status.Ended() })
		c <- answer{j, err}
	}()
	return c
}

func nothingYet(t *testing.T, c <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		t.Fatalf("answered too early: %s, %v", a.job.Status, a.err)
	default:
	}
}

func hasAnswer(t *testing.T, c <-chan answer, want job.Status, wantErr error) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		if a.job.Status != want || !errors.Is(a.err, wantErr) || (a.err == nil) != (wantErr == nil) {
			t.Fatalf("answered %q, %v; want %q, %v", a.job.Status, a.err, want, wantErr)
		}
	default:
		t.Fatal("no answer")
	}
}

func ended(id job.ID) job.Event { return job.Event{ID: id, Status: job.Completed} }
