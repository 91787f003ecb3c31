package ledger

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tierq/tierq/internal/job"
)

// answering makes the first tries of one call end with these errors, whether or not the call was carried out. It
// counts the tries.
func answering(call string, errs ...error) (after func(string) error, tries *int) {
	tries = new(int)
	return func(name string) error {
		if name != call {
			return nil
		}
		if *tries++; *tries <= len(errs) {
			return errs[*tries-1]
		}
		return nil
	}, tries
}

// doubts are the ways in which two tries can end, and the caller's error: job.ErrAmbiguous if one of them was lost
// and none was answered.
var doubts = []struct {
	name  string
	errs  []error
	tries int
	want  error // nil: the call succeeded
}{
	{"lost, then answered", []error{job.ErrAmbiguous}, 2, nil},
	{"lost twice", []error{job.ErrAmbiguous, job.ErrAmbiguous}, 2, job.ErrAmbiguous},
	{"lost, then refused", []error{job.ErrAmbiguous, job.ErrUnavailable}, 2, job.ErrAmbiguous},
	{"refused", []error{job.ErrUnavailable}, 1, job.ErrUnavailable},
}

// told compares an error with want: it is never both job.ErrAmbiguous and job.ErrUnavailable.
func told(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) ||
		errors.Is(err, job.ErrAmbiguous) && errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestRequeue_InDoubt(t *testing.T) {
	for _, tc := range doubts {
		t.Run(tc.name, func(t *testing.T) {
			l, r, s := given(nil, archived(job.Failed, 1))
			after, tries := answering("promise", tc.errs...)
			s.after = after
			told(t, l.Requeue(t.Context(), someID, job.Request{ID: "mine"}), tc.want)
			if *tries != tc.tries || (r.jobs[someID].Generation == 2) != (tc.want == nil) {
				t.Errorf("%d tries, job %+v", *tries, r.jobs[someID])
			}
			// The same request asks again, without knowing what became of its first try.
			if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"}); err != nil || r.jobs[someID].Generation != 2 {
				t.Errorf("asked again: %v, job %+v", err, r.jobs[someID])
			}
		})
	}
}

func TestCancel_InDoubt(t *testing.T) {
	for _, tc := range doubts {
		t.Run(tc.name, func(t *testing.T) {
			l, r, _ := given(living(job.Pending, 1), nil)
			after, tries := answering("cancel", tc.errs...)
			r.after = after
			_, err := l.Cancel(t.Context(), someID)
			told(t, err, tc.want)
			if *tries != tc.tries {
				t.Errorf("%d tries", *tries)
			}
		})
	}
}

func TestRequeueDead_InDoubt(t *testing.T) {
	for _, tc := range doubts {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _, s := given(nil, dead(3))
				after, _ := answering("promise", tc.errs...)
				s.after = after
				_, requeued, err := l.RequeueDead(t.Context(), job.Filter{}, 10, false, "")
				told(t, err, tc.want)
				if (requeued == 3) != (tc.want == nil) {
					t.Errorf("%d requeued", requeued)
				}
			})
		})
	}
}

// A read whose answer was lost changed nothing: the requeue was certainly not promised.
func TestRequeue_ALostReadIsNoDoubt(t *testing.T) {
	for name, breaks := range map[string]func(r *fakeRedis, s *fakeSQL){
		"Redis": func(r *fakeRedis, _ *fakeSQL) { r.down = job.ErrAmbiguous },
		"SQL":   func(_ *fakeRedis, s *fakeSQL) { s.down = job.ErrAmbiguous },
	} {
		t.Run(name, func(t *testing.T) {
			l, r, s := given(nil, archived(job.Failed, 1))
			breaks(r, s)
			told(t, l.Requeue(t.Context(), someID, job.Request{ID: "mine"}), job.ErrUnavailable)
			if d := s.rows[someID]; !d.Open() {
				t.Error("promised")
			}
		})
	}
}

// A call whose caller has left is not repeated.
func TestTwice_CallerLeft(t *testing.T) {
	l, r, _ := given(living(job.Pending, 1), nil)
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	r.after = func(string) error { tries++; cancel(); return job.ErrAmbiguous }
	if _, err := l.Cancel(ctx, someID); !errors.Is(err, job.ErrAmbiguous) || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}
