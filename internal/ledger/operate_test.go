package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// killedDead is a dead letter of a killed job.
func killedDead() map[job.ID]job.DeadLetter {
	rows := archived(job.Failed, 1)
	d := rows[someID]
	d.Cause = job.Killed
	rows[someID] = d
	return rows
}

func TestKillAndHasten(t *testing.T) {
	for _, tc := range []struct {
		name         string
		redis        map[job.ID]job.Job
		redisErr     error
		sql          map[job.ID]job.DeadLetter
		sqlErr       error
		kill, hasten error
	}{
		{"pending", living(job.Pending, 1), nil, nil, nil, nil, nil},
		{"scheduled", living(job.Scheduled, 1), nil, nil, nil, nil, nil},
		{"running", living(job.Processing, 1), nil, nil, nil, job.ErrWrongState, job.ErrWrongState},
		{"completed", living(job.Completed, 1), nil, archived(job.Completed, 1), nil, job.ErrWrongState, job.ErrWrongState},
		{"failed", living(job.NeedDiscard, 1), nil, nil, nil, job.ErrWrongState, job.ErrWrongState},
		{"forgotten, failed", nil, nil, archived(job.Failed, 1), nil, job.ErrWrongState, job.ErrWrongState},
		{"forgotten, killed", nil, nil, killedDead(), nil, nil, job.ErrWrongState},
		{"killed, and promised another life", nil, nil, promised(killedDead()), nil, nil, nil},
		{"forgotten, cancelled", nil, nil, archived(job.Cancelled, 1), nil, job.ErrWrongState, job.ErrWrongState},
		{"forgotten, SQL down", nil, nil, nil, job.ErrUnavailable, job.ErrUnavailable, job.ErrUnavailable},
		{"unknown", nil, nil, nil, nil, job.ErrNotFound, job.ErrNotFound},
		{"Redis down", nil, job.ErrUnavailable, nil, nil, job.ErrUnavailable, job.ErrUnavailable},
		{"SQL down does not matter to the living", living(job.Scheduled, 1), nil, nil, job.ErrUnavailable, nil, nil},
	} {
		for verb, want := range map[string]error{"kill": tc.kill, "hasten": tc.hasten} {
			t.Run(tc.name+", "+verb, func(t *testing.T) {
				l, r, s := given(clone(tc.redis), clone(tc.sql))
				r.down, s.down = tc.redisErr, tc.sqlErr
				act := func(ctx context.Context, id job.ID) error { return l.Kill(ctx, id, "no use") }
				if verb == "hasten" {
					act = l.Hasten
				}
				for try := range 2 { // a repeat gets the same answer
					if err := act(t.Context(), someID); !errors.Is(err, want) || (err == nil) != (want == nil) {
						t.Errorf("try %d: %v, want %v", try, err, want)
					}
				}
				if tc.redis != nil && r.jobs[bystand].Status != job.Pending {
					t.Error("the bystander moved")
				}
				if tc.name != "scheduled" {
					return
				}
				j := r.jobs[someID]
				if verb == "kill" && (j.Status != job.NeedDiscard || j.Cause != job.Killed || j.LastError != "no use") ||
					verb == "hasten" && j.Status != job.Pending {
					t.Errorf("%+v", j)
				}
			})
		}
	}
}

func clone[V any](of map[job.ID]V) map[job.ID]V {
	if of == nil {
		return nil
	}
	all := map[job.ID]V{}
	for id, v := range of {
		all[id] = v
	}
	return all
}

// A requeued job is killed in its new life, not in the one that was killed before.
func TestKill_TheNextLife(t *testing.T) {
	l, r, _ := given(nil, promised(killedDead()))
	if err := l.Kill(t.Context(), someID, ""); err != nil {
		t.Fatal(err)
	}
	if j := r.jobs[someID]; j.Generation != 2 || j.Status != job.NeedDiscard || j.LastError == "" {
		t.Errorf("%+v", j)
	}
}

// A job that only its row has is given to Redis and then killed, or hastened. The row keeps what was answered.
func TestKillAndHasten_OfALostJob(t *testing.T) {
	l, r, j := journaled(2)
	if err := l.Kill(t.Context(), testID(0), "no use"); err != nil {
		t.Fatal(err)
	}
	if err := l.Hasten(t.Context(), testID(1)); err != nil {
		t.Fatal(err)
	}
	if one, two := r.jobs[testID(0)], r.jobs[testID(1)]; one.Status != job.NeedDiscard || two.Status != job.Pending {
		t.Errorf("%s, %s", one.Status, two.Status)
	}
	if j.rows[testID(0)].KillReason != "no use" || len(j.hastening) != 1 {
		t.Errorf("%+v, %v", j.rows[testID(0)], j.hastening)
	}
}

// A Redis that comes back empty after the answer gets the killed job back as a dead letter.
func TestKill_OutlivesRedis(t *testing.T) {
	l, r, j := journaled(1)
	if err := l.Kill(t.Context(), testID(0), "no use"); err != nil {
		t.Fatal(err)
	}
	clear(r.jobs)
	r.run = "run-2"
	if restored, err := l.Reconcile(t.Context()); restored != 1 || err != nil {
		t.Fatal(restored, err)
	}
	if k := r.jobs[testID(0)]; k.Status != job.NeedDiscard || k.Cause != job.Killed || k.LastError != "no use" {
		t.Errorf("%+v", k)
	}
	if found := j.rows[testID(0)].Incarnation; found != "run-2" {
		t.Errorf("the row names %q", found)
	}
}

// A failover may bring a killed job back alive. It is killed again, and cancelled if it runs by then.
func TestKill_AfterAFailover(t *testing.T) {
	for status, want := range map[job.Status]func(k job.Job) bool{
		job.Pending:    func(k job.Job) bool { return k.Status == job.NeedDiscard && k.Cause == job.Killed },
		job.Processing: func(k job.Job) bool { return k.CancelRequested },
	} {
		l, r, j := journaled(1)
		if err := l.Kill(t.Context(), testID(0), "no use"); err != nil {
			t.Fatal(err)
		}
		r.jobs[testID(0)] = is(testID(0), status, 1)
		r.run = "run-2"
		if _, err := l.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k := r.jobs[testID(0)]; !want(k) {
			t.Errorf("it was %s: %+v, its row %+v", status, k, j.rows[testID(0)])
		}
	}
}

// With the journal a kill that SQL does not note is in doubt, and the repeat notes it.
func TestKill_NotNoted(t *testing.T) {
	l, r, j := journaled(1)
	r.jobs[testID(0)] = is(testID(0), job.Pending, 1)
	j.down = job.ErrUnavailable
	if err := l.Kill(t.Context(), testID(0), ""); !errors.Is(err, job.ErrAmbiguous) {
		t.Fatal(err)
	}
	j.down = nil
	if err := l.Kill(t.Context(), testID(0), ""); err != nil || j.rows[testID(0)].KillReason == "" {
		t.Fatal(err, j.rows[testID(0)])
	}
}

func TestDismiss(t *testing.T) {
	for _, tc := range []struct {
		name  string
		redis map[job.ID]job.Job
		sql   map[job.ID]job.DeadLetter
		want  error
	}{
		{"a dead letter", nil, archived(job.Failed, 1), nil},
		{"one that Redis has still", living(job.Failed, 1), archived(job.Failed, 1), nil},
		{"one that gets another life", nil, promised(archived(job.Failed, 1)), job.ErrWrongState},
		{"failed, not in SQL yet", living(job.NeedDiscard, 1), nil, job.ErrWrongState},
		{"failed, gone from SQL", living(job.Failed, 1), nil, job.ErrWrongState},
		{"living", living(job.Pending, 1), nil, job.ErrWrongState},
		{"completed", nil, archived(job.Completed, 1), job.ErrWrongState},
		{"unknown", nil, nil, job.ErrNotFound},
	} {
		l, _, s := given(tc.redis, tc.sql)
		for try := range 2 { // a repeat gets the same answer
			if err := l.Dismiss(t.Context(), someID, "dealt with"); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("%s, try %d: %v, want %v", tc.name, try, err, tc.want)
			}
		}
		if calls := slices.Contains(s.calls, "letter"); tc.want == nil && !s.rows[someID].DismissedAt.Before(time.Now()) || !calls {
			t.Errorf("%s: %+v", tc.name, s.rows[someID])
		}
	}
	l, _, s := given(nil, archived(job.Failed, 1))
	s.down = job.ErrUnavailable
	if err := l.Dismiss(t.Context(), someID, ""); !errors.Is(err, job.ErrUnavailable) {
		t.Error(err)
	}
}
