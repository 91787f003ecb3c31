package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// reasonsOf returns the Reasons of a job as text.
func reasonsOf(t *testing.T, l *Ledger, id job.ID) string {
	t.Helper()
	j, err := l.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := l.Reasons(t.Context(), &j)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, r := range reasons {
		text += fmt.Sprintf("%s %d: %s. ", r.Action, r.Generation, r.Text)
	}
	return text
}

// The reason of a cancel is in SQL before Redis is asked, so that an answered cancel has its reason. The first
// reason of a cancel that was carried out stays.
func TestCancelBecause(t *testing.T) {
	for name, c := range map[string]struct {
		status job.Status
		want   job.Word
	}{"waiting": {job.Pending, job.WasCancelled}, "running": {job.Processing, job.Cancel}} {
		t.Run(name, func(t *testing.T) {
			l, r, s := given(living(c.status, 3), nil)
			before := -1 // cancels that Redis had seen when the reason was first stored
			s.after = func(call string) error {
				if call == "reason" && before < 0 {
					before = 0
					if r.jobs[someID].Status != c.status || r.jobs[someID].CancelRequested {
						before = 1
					}
				}
				return nil
			}
			for _, reason := range []string{"ordered twice", "another one", ""} {
				if word, err := l.CancelBecause(t.Context(), someID, reason); word != c.want || err != nil {
					t.Fatal(word, err)
				}
				if got := reasonsOf(t, l, someID); got != "cancel 3: ordered twice. " {
					t.Errorf("after %q: %s", reason, got)
				}
			}
			if before != 0 {
				t.Errorf("Redis had seen %d cancels before the reason was kept", before)
			}
		})
	}
}

// A cancel whose reason cannot be stored is not carried out, and the error says so. Without a reason SQL is not
// asked.
func TestCancelBecause_SQLAway(t *testing.T) {
	for _, away := range []error{job.ErrUnavailable, job.ErrAmbiguous} {
		l, r, s := given(living(job.Pending, 1), nil)
		s.down = away
		_, err := l.CancelBecause(t.Context(), someID, "ordered twice")
		if !errors.Is(err, job.ErrNotKept) || !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) ||
			r.jobs[someID].Status != job.Pending {
			t.Errorf("%v, and the job is %s", err, r.jobs[someID].Status)
		}
		if word, err := l.CancelBecause(t.Context(), someID, ""); word != job.WasCancelled || err != nil {
			t.Error(word, err)
		}
	}
}

// A crash between the two stores leaves the reason of a cancel that was not carried out. It is shown for no job,
// and a later reason replaces it.
func TestCancelBecause_CrashBetween(t *testing.T) {
	l, r, s := given(living(job.Processing, 2), nil)
	r.down = job.ErrUnavailable
	if _, err := l.CancelBecause(t.Context(), someID, "Redis is away"); !errors.Is(err, job.ErrUnavailable) ||
		len(s.reasons) != 0 {
		t.Fatal(err, s.reasons)
	}
	r.down = nil
	if err := s.KeepCancelReason(t.Context(), someID, 2, "and then the process died", true); err != nil {
		t.Fatal(err)
	}
	if got := reasonsOf(t, l, someID); got != "" {
		t.Errorf("nobody cancelled it: %s", got)
	}
	s.rows = archived(job.Completed, 2)
	ended := s.rows[someID].Job
	if reasons, err := l.Reasons(t.Context(), &ended); len(reasons) != 0 || err != nil {
		t.Errorf("it is completed: %v, %v", reasons, err)
	}
	s.rows = nil
	if _, err := l.CancelBecause(t.Context(), someID, "no longer needed"); err != nil {
		t.Fatal(err)
	}
	if got := reasonsOf(t, l, someID); got != "cancel 2: no longer needed. " {
		t.Error(got)
	}
}

// A cancel without a reason does not ask SQL: the job then shows the reason of an earlier request that did not
// reach Redis.
func TestCancelBecause_LeftReason(t *testing.T) {
	l, r, s := given(living(job.Processing, 2), nil)
	s.after = func(call string) error {
		if call == "reason" {
			r.down = job.ErrUnavailable // the reason is stored, and then Redis goes down
		}
		return nil
	}
	if _, err := l.CancelBecause(t.Context(), someID, "ordered twice"); !errors.Is(err, job.ErrUnavailable) {
		t.Fatal(err)
	}
	r.down, s.after = nil, nil
	if got := reasonsOf(t, l, someID); got != "" {
		t.Errorf("nobody cancelled it: %s", got)
	}
	s.down = job.ErrUnavailable
	if word, err := l.CancelBecause(t.Context(), someID, ""); word != job.Cancel || err != nil {
		t.Fatal(word, err)
	}
	s.down = nil
	if got := reasonsOf(t, l, someID); got != "cancel 2: ordered twice. " {
		t.Errorf("cancelled without a reason: %q", got)
	}
}

func TestCancelBecause_OfTheEnded(t *testing.T) {
	l, _, s := given(nil, archived(job.Completed, 1))
	if _, err := l.CancelBecause(t.Context(), someID, "too late"); !errors.Is(err, job.ErrWrongState) ||
		len(s.reasons) != 0 {
		t.Error(err, s.reasons)
	}
	l, _, s = given(nil, archived(job.Cancelled, 1))
	if word, err := l.CancelBecause(t.Context(), someID, "as I said"); word != job.WasCancelled || err != nil ||
		len(s.reasons) != 1 {
		t.Error(word, err, s.reasons)
	}
	l, _, _ = given(nil, nil)
	if _, err := l.CancelBecause(t.Context(), someID, "whatever"); !errors.Is(err, job.ErrNotFound) {
		t.Error(err)
	}
}

// The reason of a requeue is stored with its promise; a repeat of the request changes nothing. A requeue that SQL
// cannot promise stores no reason.
func TestRequeueBecause(t *testing.T) {
	l, _, s := given(nil, archived(job.Failed, 4))
	for range 2 {
		if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine", Reason: "the bank is back"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := reasonsOf(t, l, someID); got != "requeue 4: the bank is back. " || len(s.reasons) != 1 {
		t.Errorf("%s, %d noted", got, len(s.reasons))
	}
}

// A job that can have no reasons is shown without asking SQL. For a job that may have some, a failed read is an
// error.
func TestReasons_SQLAway(t *testing.T) {
	l, r, s := given(living(job.Pending, 1), nil)
	s.down = job.ErrUnavailable
	if got := reasonsOf(t, l, someID); got != "" || len(s.calls) != 0 {
		t.Error(got, s.calls)
	}
	j := r.jobs[someID]
	j.Generation = 2
	if _, err := l.Reasons(t.Context(), &j); !errors.Is(err, job.ErrUnavailable) {
		t.Error(err)
	}
}
