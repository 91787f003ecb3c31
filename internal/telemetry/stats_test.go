package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/job"
)

// shelf is a store that adds up the counts it gets.
type shelf struct {
	mu     sync.Mutex
	fields map[string]int64
	calls  int
	fail   func() error // nil = never
}

func (s *shelf) AddStats(_ context.Context, fields map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return err
		}
	}
	if s.fields == nil {
		s.fields = map[string]int64{}
	}
	for f, n := range fields {
		s.fields[f] += n
	}
	return nil
}

func TestStatsAreFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := measured(), &shelf{}
		s := NewStats(m, store, quiet)
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("stop before start: %v", err)
		}
		for range 2 {
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			m.Submitted(job.Paid, Accepted)
		}
		m.Submitted(job.Paid, QueueFull)
		m.Submitted(job.Paid, SystemUnhealthy)
		m.Submitted(job.Paid, Replayed)
		m.Started(first(job.Paid), 100*time.Millisecond)
		<-time.After(1100 * time.Millisecond)
		m.Ended(first(job.Paid), "COMPLETED", "", 50*time.Millisecond)
		m.Ended(first(job.Paid), "RETRIED", job.HandlerError, 50*time.Millisecond)
		m.Ended(first(job.Paid), "RELEASED", "", 50*time.Millisecond)
		m.Ended(first(job.Public), "FAILED", job.HandlerError, 3*time.Hour)
		m.Recovered(job.Public, job.Crashed, job.OK)
		m.Cancelled(job.Public)
		for range 2 {
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]int64{
			"PAID:submitted": 3, "PAID:refused": 2, "PAID:wait:27": 1, "PAID:completed": 1, "PAID:retried": 1, "PAID:run:23": 2,
			"PUBLIC:failed": 1, "PUBLIC:recovered": 1, "PUBLIC:cancelled": 1, "PUBLIC:run:92": 1,
		}
		if diff := cmp.Diff(want, store.fields); diff != "" || store.calls != 2 {
			t.Errorf("%d calls (-want +got):\n%s", store.calls, diff)
		}
		if figures := Summary(store.fields, time.Minute); figures[job.Paid].SubmittedPerSecond != 3.0/60 {
			t.Errorf("the summary is %+v", figures)
		}
	})
}

func TestStatsSurviveAFailedFlush(t *testing.T) {
	m, store := measured(), &shelf{}
	var log bytes.Buffer
	s := NewStats(m, store, slog.New(slog.NewTextHandler(&log, nil)))
	flush := func(err error) int64 {
		m.Submitted(job.Paid, Accepted)
		store.fail = func() error { return err }
		s.runOnce(t.Context())
		return store.fields["PAID:submitted"]
	}
	refused := fmt.Errorf("add: %w", job.ErrUnavailable)
	flush(refused)
	flush(refused)
	if n := flush(nil); n != 3 {
		t.Errorf("%d submits after two refused flushes, want 3", n)
	}
	flush(fmt.Errorf("add: %w", job.ErrAmbiguous)) // perhaps counted: never sent twice
	if n := flush(nil); n != 4 {
		t.Errorf("%d submits after a lost answer, want 4", n)
	}
	if n := strings.Count(log.String(), "cannot flush"); n != 2 {
		t.Errorf("%d warnings, want one for each outage:\n%s", n, log.String())
	}
}

func TestStopWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		m := measured()
		s := NewStats(m, &shelf{fail: func() error { <-release; return errors.New("late") }}, quiet)
		m.Submitted(job.Paid, Accepted)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(1100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		close(release)
		_ = s.Stop(t.Context()) // the store answers late, and no goroutine is left
	})
}
