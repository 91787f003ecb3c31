package ledger

import (
	"errors"
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestCancel(t *testing.T) {
	t.Attr("proves", "S1-E5 S1-S4")
	for _, tc := range []struct {
		name     string
		redis    map[job.ID]job.Job
		redisErr error
		sql      map[job.ID]job.DeadLetter
		sqlErr   error
		want     job.Word
		wantErr  error
	}{
		{"pending", living(job.Pending, 1), nil, nil, nil, job.WasCancelled, nil},
		{"scheduled", living(job.Scheduled, 1), nil, nil, nil, job.WasCancelled, nil},
		{"running", living(job.Processing, 1), nil, nil, nil, job.Cancel, nil},
		{"completed", living(job.Completed, 1), nil, nil, nil, "", job.ErrWrongState},
		{"failed", living(job.NeedDiscard, 1), nil, nil, nil, "", job.ErrWrongState},
		{"forgotten, completed", nil, nil, archived(job.Completed, 1), nil, "", job.ErrWrongState},
		{"forgotten, failed", nil, nil, archived(job.Failed, 1), nil, "", job.ErrWrongState},
		{
			"forgotten, failed, and promised another life", nil, nil, promised(archived(job.Failed, 1)), nil, "",
			job.ErrAmbiguous,
		},
		{
			"failed, and promised another life", living(job.Failed, 1), nil, promised(archived(job.Failed, 1)), nil, "",
			job.ErrUnavailable,
		},
		{"forgotten, cancelled", nil, nil, archived(job.Cancelled, 1), nil, job.WasCancelled, nil},
		{"forgotten, SQL down", nil, nil, nil, job.ErrUnavailable, "", job.ErrUnavailable},
		{"unknown", nil, nil, nil, nil, "", job.ErrNotFound},
		{"Redis down", nil, job.ErrUnavailable, archived(job.Completed, 1), nil, "", job.ErrUnavailable},
		{"SQL down does not matter to the living", living(job.Pending, 1), nil, nil, job.ErrUnavailable, job.WasCancelled,
			nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, r, s := given(tc.redis, tc.sql)
			r.down, s.down = tc.redisErr, tc.sqlErr
			for try := range 2 { // a repeat gets the same answer
				word, err := l.Cancel(t.Context(), someID)
				if word != tc.want || !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
					t.Errorf("try %d: %q, %v; want %q, %v", try, word, err, tc.want, tc.wantErr)
				}
			}
			if tc.redis != nil && r.jobs[bystand].Status != job.Pending {
				t.Error("the bystander moved")
			}
		})
	}
}

func TestCancel_OfAnotherCluster(t *testing.T) {
	l, r, _ := given(nil, nil)
	for _, id := range []job.ID{"019de340-01fe-7a58-be69-567cd7d6b7d4", "nothing", ""} {
		if _, err := l.Cancel(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
		if err := l.Requeue(t.Context(), id, job.Request{}); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if len(r.calls) != 0 {
		t.Errorf("calls %v", r.calls)
	}
}

// A cancel whose answer was lost is sent again, and gets the same answer.
func TestCancel_LostAnswer(t *testing.T) {
	l, r, _ := given(living(job.Pending, 1), nil)
	lost := 0
	r.after = func(string) error {
		if lost++; lost == 1 {
			return job.ErrAmbiguous
		}
		return nil
	}
	if word, err := l.Cancel(t.Context(), someID); word != job.WasCancelled || err != nil || lost != 2 {
		t.Errorf("%q, %v after %d calls", word, err, lost)
	}
}

// The cancel of a job that Redis lost and the journal has is stored. The job is cancelled if Redis has it again by
// then.
func TestCancel_LostByRedis(t *testing.T) {
	for name, c := range map[string]struct {
		hurt  func(r *restorer, j *fakeJournal)
		want  job.Word
		err   error
		noted bool
	}{
		"not there yet": {func(*restorer, *fakeJournal) {}, "", job.ErrAmbiguous, true},
		"given back meanwhile": {func(r *restorer, j *fakeJournal) {
			j.noting = func() { r.jobs[testID(0)] = is(testID(0), job.Pending, 1) }
		}, job.WasCancelled, nil, true},
		"it runs again": {func(r *restorer, j *fakeJournal) {
			j.noting = func() { r.jobs[testID(0)] = is(testID(0), job.Processing, 1) }
		}, job.Cancel, nil, true},
		"SQL down":  {func(_ *restorer, j *fakeJournal) { j.down = job.ErrUnavailable }, "", job.ErrUnavailable, false},
		"nobody's":  {func(_ *restorer, j *fakeJournal) { clear(j.rows) }, "", job.ErrNotFound, false},
		"has ended": {func(_ *restorer, j *fakeJournal) { j.ended[testID(0)] = true }, "", job.ErrNotFound, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, r, j := journaled(1)
			c.hurt(r, j)
			word, err := l.Cancel(t.Context(), testID(0))
			if word != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%q, %v; want %q, %v", word, err, c.want, c.err)
			}
			if noted := slices.Contains(j.cancelling, testID(0)); noted != c.noted {
				t.Errorf("noted: %v", noted)
			}
		})
	}
	l, _, _ := journaled(1)
	if err := l.Requeue(t.Context(), testID(0), job.Request{}); !errors.Is(err, job.ErrWrongState) {
		t.Errorf("requeue of a living job: %v", err)
	}
	if err := l.Requeue(t.Context(), testID(9), job.Request{}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("requeue of nobody's: %v", err)
	}
}

// The cancel of a requeued job is stored in the row of its next generation. If Redis loses both, the job comes
// back CANCELLED.
func TestCancel_OfARequeuedJob(t *testing.T) {
	for name, lost := range map[string]bool{"Redis has it": false, "Redis lost it": true} {
		t.Run(name, func(t *testing.T) {
			l, r, s := given(nil, archived(job.Failed, 1))
			if err := l.Requeue(t.Context(), someID, job.Request{}); err != nil {
				t.Fatal(err)
			}
			if word, err := l.Cancel(t.Context(), someID); word != job.WasCancelled || err != nil {
				t.Fatalf("%q, %v", word, err)
			}
			if row := s.living.rows[someID]; row.Generation != 2 || !row.CancelRequested {
				t.Fatalf("the row is %+v", row)
			}
			if lost {
				delete(r.jobs, someID)
				r.run = "run-2"
			}
			if n, err := l.Reconcile(t.Context()); err != nil || (n == 1) != lost {
				t.Fatalf("%d given back, %v", n, err)
			}
			if now := r.jobs[someID]; now.Status != job.Cancelled || now.Generation != 2 {
				t.Errorf("%s in generation %d", now.Status, now.Generation)
			}
		})
	}
}

// The cancel of a promised generation that Redis does not have yet is stored, and the job is CANCELLED when Redis
// gets it.
func TestCancel_OfAPromise(t *testing.T) {
	l, r, s := given(nil, promised(archived(job.Failed, 1)))
	if _, err := l.Cancel(t.Context(), someID); !errors.Is(err, job.ErrAmbiguous) {
		t.Fatalf("%v, want that nobody knows yet", err)
	}
	if !s.living.rows[someID].CancelRequested {
		t.Fatal("it is not noted")
	}
	reconcile(t, l, 1)
	if now := r.jobs[someID]; now.Status != job.Cancelled || now.Generation != 2 {
		t.Errorf("%s in generation %d", now.Status, now.Generation)
	}
}
