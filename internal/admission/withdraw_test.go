package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// cut is the journal of a process whose line to SQL is cut: what it was to accept it hears of, and refuses when it is told to.
type cut struct {
	fakeJournal
	asked, refuse chan struct{}
}

func (c *cut) Accept(context.Context, []job.JournalRow) error {
	close(c.asked)
	<-c.refuse
	return job.ErrUnavailable
}

// over starts a process' Admission on a queue.
func over(t *testing.T, e *queuetest.Env, q *queue.Queue, j Journal) *Admission {
	t.Helper()
	gate := NewGate(GateOptions{Probe: func(context.Context) error { return nil }})
	a := New(
		Options{
			Queue:      q,
			Plans:      e.Plans,
			Gate:       gate,
			Partitions: 1,
			Journal:    j,
			Withdrawer: q,
			Run:        q.KnownIncarnation,
		},
	)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Two processes are asked under one key. The first cannot journal its job and takes it back: not if the second has answered with it by then, and if
// it was taken back before, the second one makes another.
func TestWithdrawnAndAnswered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*queue.Options){
		"journal":  func(o *queue.Options) { o.Journal = true },
		"embedded": func(o *queue.Options) { o.Journal, o.Embedded = true, true }, // one process, and two commits of it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.EachWith(t, change, func(t *testing.T, e *queuetest.Env) {
				runs, err := e.Incarnations(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.MarkKeys(t.Context(), runs); err != nil {
					t.Fatal(err)
				}
				second := over(t, e, e.Process("second"), &fakeJournal{})
				ask := func(key string) (refuse func() result) {
					j := &cut{asked: make(chan struct{}), refuse: make(chan struct{})}
					first := over(t, e, e.Queue, j)
					answer := make(chan result, 1)
					go func() {
						accepted, err := first.Submit(t.Context(), underKey(key))
						answer <- result{id: accepted.ID, err: err}
					}()
					<-j.asked
					return func() result { close(j.refuse); return <-answer }
				}

				refuse := ask("k")
				again, err := second.Submit(t.Context(), underKey("k"))
				if err != nil || !again.Replayed {
					t.Fatalf("the second process: %+v, %v", again, err)
				}
				if got := refuse(); !errors.Is(got.err, job.ErrFateUnknown) || got.id != again.ID {
					t.Errorf("the first process: %+v, want that nobody knows of %s", got, again.ID)
				}
				if l := e.Take(t, 1)[0]; l.ID != again.ID {
					t.Errorf("%s runs", l.ID)
				}

				refuse = ask("l")
				if got := refuse(); !errors.Is(got.err, job.ErrUnhealthy) {
					t.Errorf("taken back before anybody asked again: %+v", got)
				}
				next, err := second.Submit(t.Context(), underKey("l"))
				if err != nil || next.Replayed {
					t.Fatalf("the second process, after it: %+v, %v", next, err)
				}
				if l := e.Take(t, 1)[0]; l.ID != next.ID {
					t.Errorf("%s runs", l.ID)
				}
			})
		})
	}
}

func underKey(key string) job.Submission {
	return job.Submission{Tier: job.Paid, Type: "SIMULATION", MaxRetries: -1, Idempotency: job.Idempotency{Key: key, Body: "b"}}
}
