package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// store is a store that a test takes away and brings back.
type store struct {
	mu     sync.Mutex
	err    error
	hangs  bool
	probes []time.Time
}

func (s *store) probe(context.Context) error {
	s.mu.Lock()
	s.probes = append(s.probes, time.Now())
	err, hangs := s.err, s.hangs
	s.mu.Unlock()
	if hangs {
		pass(3 * time.Second) // virtual: ignores its deadline
	}
	return err
}

func (s *store) set(err error, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hangs = err, hangs
}

func (s *store) probed() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.probes)
}

func startGate(t *testing.T, s *store, o GateOptions) *Gate {
	t.Helper()
	o.Probe = s.probe
	g := NewGate(o)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := g.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

func TestGate_ClosesAtItsThreshold_S2_N14_T_6(t *testing.T) {
	lost, away := fmt.Errorf("submit: %w", job.ErrAmbiguous), fmt.Errorf("claim: %w", job.ErrUnavailable)
	for name, c := range map[string]struct {
		observed []error
		open     bool
		failures int
	}{
		"below":                     {[]error{lost, away}, true, 2},
		"at":                        {[]error{lost, away, lost}, false, 3},
		"a success starts again":    {[]error{lost, lost, nil, lost, lost}, true, 2},
		"a client that hung up":     {[]error{lost, lost, context.Canceled, context.Canceled}, true, 2},
		"an answer is not an error": {[]error{lost, lost, job.ErrNotFound, job.ErrQueueFull}, true, 2},
		"nor does it heal":          {[]error{lost, lost, context.Canceled, lost}, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGate(GateOptions{Threshold: 3})
			for _, err := range c.observed {
				g.Observe(err)
			}
			if s := g.State(); s.Open != c.open || g.Open() != c.open || s.Failures != c.failures || s.Threshold != 3 || (s.Reason == "") != c.open {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The gate's count has nothing to do with the retries of jobs: a job's failure is no infrastructure error, and nothing but calls
// to the store moves the count.
func TestGate_IsNotTheBackoff_S2_P9(t *testing.T) {
	g := NewGate(GateOptions{Threshold: 1})
	for _, err := range []error{errors.New("handler failed"), job.Permanent(errors.New("x")), job.RetryAfter(time.Hour, errors.New("x")), job.ErrMaxTime, job.ErrLeaseLost} {
		g.Observe(err)
	}
	if s := g.State(); !s.Open || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

func TestGate_Judge(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		facts facts
		want  verdict
	}{
		"healthy":                          {facts{open: true, threshold: 3, failures: 2}, stay},
		"failing":                          {facts{open: true, threshold: 3, failures: 3}, closeFailures},
		"outbox full":                      {facts{open: true, threshold: 3, outboxFull: true}, closeOutbox},
		"failing, but it changed just now": {facts{open: true, threshold: 3, failures: 9, changed: now.Add(-time.Second)}, stay},
		"failing, 2 s after it changed":    {facts{open: true, threshold: 3, failures: 9, changed: now.Add(-dwell)}, closeFailures},
		"closed, not yet":                  {facts{threshold: 3, changed: now.Add(-time.Second), nextProbe: now.Add(time.Second)}, stay},
		"closed, due":                      {facts{threshold: 3, failures: 9, nextProbe: now}, probe},
		"closed, due, outbox full":         {facts{threshold: 3, outboxFull: true, nextProbe: now}, stay},
	} {
		if got := judge(c.facts, now); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

func TestGate_OpensByAProbe_F13_T_6(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs=%v", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{err: job.ErrAmbiguous, hangs: hangs}
				g := startGate(t, s, GateOptions{Threshold: 3})
				woken := 0
				g.OnOpen(func() { woken++ })
				closed := time.Now()
				for range 3 {
					g.Observe(job.ErrUnavailable)
				}
				// Others go on failing: that must not keep the gate from probing.
				for range 200 {
					pass(100 * time.Millisecond)
					g.Observe(job.ErrUnavailable)
				}
				if g.Open() || woken != 0 {
					t.Fatal("open without a store")
				}
				if p := s.probed(); len(p) < 8 || len(p) > 10 || p[0].Sub(closed) < dwell {
					t.Errorf("%d probes in 20 s, the first after %s", len(p), p[0].Sub(closed))
				}
				s.set(nil, false)
				back := time.Now()
				for !g.Open() {
					pass(10 * time.Millisecond)
				}
				if took := time.Since(back); took > 5*time.Second {
					t.Errorf("open %s after the store came back", took)
				}
				synctest.Wait()
				if state := g.State(); woken != 1 || state.Failures != 0 || state.Reason != "" || !state.NextProbe.IsZero() {
					t.Errorf("woken %d, %+v", woken, state)
				}
			})
		})
	}
}

func TestGate_StaysClosedForTwoSeconds_F56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startGate(t, &store{}, GateOptions{Threshold: 3})
		begun := time.Now()
		for range 3 {
			g.Observe(job.ErrAmbiguous)
		}
		for !g.Open() {
			g.Observe(nil) // another caller succeeds
			pass(10 * time.Millisecond)
		}
		if took := time.Since(begun); took < dwell || took > dwell+2*gateTick {
			t.Errorf("open after %s", took)
		}
	})
}

func TestGate_DoesNotFlap_F56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		g := startGate(t, s, GateOptions{Threshold: 3})
		var changes []time.Time
		open := true
		for i := range 600 { // a minute: 1.5 s up, 1 s down
			var err error
			if i%25 >= 15 {
				err = job.ErrUnavailable
			}
			s.set(err, false)
			g.Observe(err)
			pass(100 * time.Millisecond)
			if g.Open() != open {
				open = !open
				changes = append(changes, time.Now())
			}
		}
		if len(changes) < 4 {
			t.Errorf("%d changes in a minute: the gate does not see the store flap", len(changes))
		}
		for i := 1; i < len(changes); i++ {
			if d := changes[i].Sub(changes[i-1]); d < dwell-100*time.Millisecond { // the look's own step
				t.Errorf("changed twice within %s", d)
			}
		}
	})
}

func TestGate_FullOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		g := startGate(t, s, GateOptions{OutboxCount: 1000, OutboxBytes: 5000})
		for _, c := range []struct {
			count, bytes int64
			open         bool
		}{
			{999, 0, true}, {1000, 0, false}, {950, 0, false}, {900, 0, false}, {899, 4999, false}, {899, 4499, true}, {999, 4999, true}, {1, 5000, false}, {0, 0, true},
		} {
			g.SetOutbox(c.count, c.bytes)
			pass(3 * time.Second)
			if g.Open() != c.open {
				t.Errorf("outbox of %d, %d bytes: open = %v", c.count, c.bytes, g.Open())
			}
		}
		if n := len(s.probed()); n != 2 {
			t.Errorf("%d probes: a full outbox is not probed", n)
		}
	})
}
