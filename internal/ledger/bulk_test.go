package ledger

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// dead returns n open dead letters, of two tiers in turn, and a completed job.
func dead(n int) map[job.ID]job.DeadLetter {
	rows := map[job.ID]job.DeadLetter{testID(n): {Job: is(testID(n), job.Completed, 1)}}
	for i := range n {
		d := job.DeadLetter{Job: is(testID(i), job.Failed, 1)}
		if i%2 == 1 {
			d.Tier = job.Public
		}
		rows[d.ID] = d
	}
	return rows
}

// alive counts requeued jobs. The caller holds the fake's lock, or nothing else runs.
func alive(r *fakeRedis) (n int) {
	for _, j := range r.jobs {
		if j.Status == job.Pending && j.Generation == 2 {
			n++
		}
	}
	return n
}

func TestRequeueDead(t *testing.T) {
	t.Attr("proves", "S0-P2 S1-S5")
	for _, tc := range []struct {
		name                         string
		filter                       job.Filter
		limit                        int
		dry                          bool
		wantMatched, wantRequeued    int
		wantNewest, wantOldestRevive bool
	}{
		{"all", job.Filter{}, MaxBulk, false, 250, 250, true, true},
		{"dry run", job.Filter{}, 100, true, 250, 0, false, false},
		{"the newest first", job.Filter{}, 120, false, 250, 120, true, false},
		{"one", job.Filter{}, 1, false, 250, 1, true, false},
		{"one tier", job.Filter{Tier: job.Public}, 1000, false, 125, 125, true, false},
		{"none", job.Filter{Tier: "OTHER"}, 1000, false, 0, 0, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, r, _ := given(nil, dead(250))
				matched, requeued, err := l.RequeueDead(t.Context(), tc.filter, tc.limit, tc.dry, "")
				if matched != tc.wantMatched || requeued != tc.wantRequeued || err != nil || alive(r) != tc.wantRequeued {
					t.Errorf("matched %d, requeued %d, %v; %d live; want %d, %d", matched, requeued, err, alive(r), tc.wantMatched,
						tc.wantRequeued)
				}
				if _, ok := r.jobs[testID(249)]; ok != tc.wantNewest {
					t.Errorf("the newest lives: %v", ok)
				}
				if _, ok := r.jobs[testID(0)]; ok != tc.wantOldestRevive {
					t.Errorf("the oldest lives: %v", ok)
				}
				if _, ok := r.jobs[testID(250)]; ok {
					t.Error("the bystander moved")
				}
			})
		})
	}
}

func TestRequeueDead_Limit(t *testing.T) {
	l, _, s := given(nil, dead(2))
	for _, limit := range []int{-1, 0, MaxBulk + 1} {
		if _, _, err := l.RequeueDead(t.Context(), job.Filter{}, limit, false, ""); err == nil {
			t.Errorf("limit %d was taken", limit)
		}
	}
	if len(s.calls) != 0 {
		t.Errorf("calls %v", s.calls)
	}
}

// Two bulk requeues share the rate, and requeue each dead letter once.
func TestRequeueDead_Rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r, _ := given(nil, dead(250))
		l.Rate, l.pace.rate = 100, 100
		began := time.Now()
		total := make(chan int, 2)
		for range 2 {
			go func() {
				_, n, err := l.RequeueDead(t.Context(), job.Filter{}, 1000, false, "")
				if err != nil {
					t.Error(err)
				}
				total <- n
			}()
		}
		<-time.After(time.Second)
		synctest.Wait()
		r.mu.Lock()
		n := alive(r)
		r.mu.Unlock()
		if n < 50 || n > 110 {
			t.Errorf("%d live after one second at 100/s", n)
		}
		if n := <-total + <-total; n != 250 || alive(r) != 250 {
			t.Errorf("%d promised, %d live, want 250", n, alive(r))
		}
		if took := time.Since(began); took < 2400*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

// A bulk requeue that stops half-way returns its counts and no error, if something was requeued. Nothing is
// promised once Redis is down.
func TestRequeueDead_Partial(t *testing.T) {
	for _, tc := range []struct {
		name      string
		breaks    func(r *fakeRedis, s *fakeSQL, cancel context.CancelFunc)
		want      int
		wantAlive int
		wantErr   error
	}{
		{"Redis goes down after a batch", func(r *fakeRedis, _ *fakeSQL, _ context.CancelFunc) {
			r.after = func(string) error {
				if alive(r) == 100 {
					r.down = job.ErrUnavailable
				}
				return nil
			}
		}, 200, 100, nil},
		{"Redis is down", func(r *fakeRedis, _ *fakeSQL, _ context.CancelFunc) { r.down = job.ErrUnavailable }, 100, 0, nil},
		{"SQL is down", func(_ *fakeRedis, s *fakeSQL, _ context.CancelFunc) { s.down = job.ErrUnavailable }, 0, 0,
			job.ErrUnavailable},
		{"SQL goes down", func(r *fakeRedis, s *fakeSQL, _ context.CancelFunc) {
			s.after = func(string) error {
				if alive(r) == 100 {
					s.down = job.ErrUnavailable
				}
				return nil
			}
		}, 200, 100, nil}, // promised, and given to Redis later
		{"the caller hangs up", func(_ *fakeRedis, s *fakeSQL, cancel context.CancelFunc) {
			s.after = func(string) error { cancel(); return nil }
		}, 100, 100, nil},
		{"the caller hung up before", func(_ *fakeRedis, _ *fakeSQL, cancel context.CancelFunc) { cancel() }, 0, 0,
			context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, r, s := given(nil, dead(250))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tc.breaks(r, s, cancel)
				_, requeued, err := l.RequeueDead(ctx, job.Filter{}, 1000, false, "")
				if requeued != tc.want || !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) ||
					alive(r) != tc.wantAlive {
					t.Errorf("requeued %d, %v, %d live; want %d, %v, %d", requeued, err, alive(r), tc.want, tc.wantErr, tc.wantAlive)
				}
			})
		})
	}
}

// A bulk requeue skips letters of a tier without a plan: their promises could not be fulfilled.
func TestRequeueDead_TierWithoutPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r, s := given(nil, dead(50))
		l.Plans.(*job.PlanBook).Set(job.DefaultPlans()[:1])
		matched, requeued, err := l.RequeueDead(t.Context(), job.Filter{}, 40, false, "")
		if matched != 50 || requeued != 25 || err != nil || alive(r) != 25 {
			t.Errorf("matched %d, requeued %d, %v", matched, requeued, err)
		}
		if d := s.rows[testID(1)]; !d.Open() {
			t.Error("promised what cannot be kept")
		}
	})
}
