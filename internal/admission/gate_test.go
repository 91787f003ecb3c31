package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// store is a store that a test can make fail and recover.
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
		pass(3 * time.Second) // virtual time: the probe ignores its deadline
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

func TestGate_ClosesAtItsThreshold(t *testing.T) {
	t.Attr("proves", "S2-N14 T-6")
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
				g.Observe(0, err)
			}
			if s := g.State(); s.Open != c.open || g.Open() != c.open || s.Failures != c.failures || s.Threshold != 3 ||
				(s.Reason == "") != c.open {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The gate's count is independent of the retries of jobs: a job's failure is no infrastructure error, and only
// calls to the store change the count.
func TestGate_IsNotTheBackoff(t *testing.T) {
	t.Attr("proves", "S2-P9")
	g := NewGate(GateOptions{Threshold: 1})
	for _, err := range []error{
		errors.New("handler failed"), handler.Permanent(errors.New("x")), handler.RetryAfter(time.Hour, errors.New("x")),
		handler.ErrMaxTime, handler.ErrLeaseLost,
	} {
		g.Observe(0, err)
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
		"healthy":   {facts{open: true, threshold: 3, failures: 2}, stay},
		"failing":   {facts{open: true, threshold: 3, failures: 3}, closeFailures},
		"no memory": {facts{open: true, threshold: 3, noMemory: true}, closeMemory},
		"no memory, and it just opened": {
			facts{open: true, threshold: 3, noMemory: true, changed: now.Add(-time.Second)}, stay,
		},
		"outbox full": {facts{open: true, threshold: 3, outboxFull: true}, closeOutbox},
		"failing, but it changed just now": {facts{open: true, threshold: 3, failures: 9, changed: now.Add(-time.Second)},
			stay},
		"failing, 2 s after it changed": {facts{open: true, threshold: 3, failures: 9, changed: now.Add(-dwell)},
			closeFailures},
		"closed, not yet": {facts{threshold: 3, changed: now.Add(-time.Second),
			nextProbe: now.Add(time.Second)}, stay},
		"closed, due":              {facts{threshold: 3, failures: 9, nextProbe: now}, probe},
		"closed, due, outbox full": {facts{threshold: 3, outboxFull: true, nextProbe: now}, stay},
	} {
		if got := judge(c.facts, now); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

func TestGate_OpensByAProbe(t *testing.T) {
	t.Attr("proves", "F13 T-6")
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs=%v", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{err: job.ErrAmbiguous, hangs: hangs}
				g := startGate(t, s, GateOptions{Threshold: 3})
				woken := 0
				g.OnOpen(func() { woken++ })
				closed := time.Now()
				for range 3 {
					g.Observe(0, job.ErrUnavailable)
				}
				// Other calls keep failing: that must not stop the gate from probing.
				for range 200 {
					pass(100 * time.Millisecond)
					g.Observe(0, job.ErrUnavailable)
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

// One refusal for memory closes the gate, even if other calls succeed; a write that succeeds opens it.
func TestGate_ClosesOnAFullStore(t *testing.T) {
	t.Attr("proves", "F22")
	synctest.Test(t, func(t *testing.T) {
		full := fmt.Errorf("probe: %w: %w", job.ErrUnavailable, job.ErrNoMemory)
		s := &store{err: full}
		g := startGate(t, s, GateOptions{Threshold: 3})
		g.Observe(0, nil)
		g.Observe(0, full)
		g.Observe(0, nil)
		if st := g.State(); st.Open || st.Reason != "Redis is full: it refuses what adds" {
			t.Fatalf("%+v", st)
		}
		pass(10 * time.Second)
		if g.Open() {
			t.Fatal("open, and the store is full")
		}
		s.set(nil, false)
		pass(3 * time.Second)
		g.Observe(0, nil)
		if !g.Open() {
			t.Error("closed, and the store has memory")
		}
	})
}

func TestGate_StaysClosedForTwoSeconds(t *testing.T) {
	t.Attr("proves", "F56")
	synctest.Test(t, func(t *testing.T) {
		g := startGate(t, &store{}, GateOptions{Threshold: 3})
		begun := time.Now()
		for range 3 {
			g.Observe(0, job.ErrAmbiguous)
		}
		for !g.Open() {
			g.Observe(0, nil) // another caller succeeds
			pass(10 * time.Millisecond)
		}
		if took := time.Since(begun); took < dwell || took > dwell+2*gateTick {
			t.Errorf("open after %s", took)
		}
	})
}

func TestGate_DoesNotFlap(t *testing.T) {
	t.Attr("proves", "F56")
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
			g.Observe(0, err)
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
			if d := changes[i].Sub(changes[i-1]); d < dwell-100*time.Millisecond { // minus the step of the check
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
			{999, 0, true}, {1000, 0, false}, {950, 0, false}, {900, 0, false}, {899, 4999, false}, {899, 4499, true},
			{999, 4999, true}, {1, 5000, false}, {0, 0, true},
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

// Each partition has its own gate for its server's errors: a closed one refuses nothing for the others. A common
// error closes all.
func TestGate_OfPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		down := map[int]bool{0: true, 2: true}
		var opened atomic.Int32
		g := startGate(t, &store{}, GateOptions{Partitions: 3, ProbePartition: func(_ context.Context, p int) error {
			mu.Lock()
			defer mu.Unlock()
			if down[p] {
				return job.ErrUnavailable
			}
			return nil
		}})
		g.OnOpen(func() { opened.Add(1) })
		is := func(when string, open bool, closed ...int) {
			t.Helper()
			s := g.State()
			if s.Open != open || g.Open() != open || !slices.Equal(s.Closed, closed) || s.Partitions != 3 ||
				(s.Reason == "") != open {
				t.Errorf("%s: %+v", when, s)
			}
			for p := range 3 {
				if want := open && !slices.Contains(closed, p); open && g.OpenAt(p) != want {
					t.Errorf("%s: partition %d open: %v", when, p, !want)
				}
			}
		}
		fails := func(p int) {
			for range 3 {
				g.Observe(p, job.ErrUnavailable)
			}
		}
		g.Observe(0, job.ErrUnavailable)
		g.Observe(1, job.ErrUnavailable)
		g.Observe(2, job.ErrUnavailable)
		is("one error each", true)
		fails(0)
		g.Observe(1, nil)
		is("one fails", true, 0)
		fails(2)
		is("two fail", true, 0, 2)
		fails(1)
		is("all fail", false)
		if r := g.State(); !strings.Contains(r.Reason, "consecutive errors") || time.Until(r.NextProbe) != dwell {
			t.Errorf("%+v", r)
		}
		pass(dwell + gateTick)
		is("one is back", true, 0, 2)
		if opened.Load() != 1 {
			t.Errorf("told %d times", opened.Load())
		}
		g.SetOutbox(100_000, 0)
		pass(dwell)
		is("the outbox is full", false)
		if g.OpenAt(1) {
			t.Error("a partition is open over a full outbox")
		}
		g.SetOutbox(0, 0)
		mu.Lock()
		down = nil
		mu.Unlock()
		pass(2*dwell + gateTick)
		is("all are back", true)
	})
}
