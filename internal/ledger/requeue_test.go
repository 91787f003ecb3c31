package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// The answers of the two stores decide whether a job may be requeued, and with which error it is refused.
func TestRequeue_WhatMayBe(t *testing.T) {
	t.Attr("proves", "S0-E4 S1-E4 S3-I9")
	for _, tc := range []struct {
		name     string
		redis    map[job.ID]job.Job
		redisErr error
		sql      map[job.ID]job.DeadLetter
		sqlErr   error
		want     error
		says     string
	}{
		{"dead, Redis forgot it", nil, nil, archived(job.Failed, 1), nil, nil, ""},
		{"dead, Redis still shows it", living(job.Failed, 1), nil, archived(job.Failed, 1), nil, nil, ""},
		{"dead, Redis went back in time", living(job.Failed, 1), nil, archived(job.Failed, 2), nil, nil, ""},
		{"pending", living(job.Pending, 1), nil, nil, nil, job.ErrWrongState, "the job is PENDING"},
		{"scheduled", living(job.Scheduled, 1), nil, nil, nil, job.ErrWrongState, "the job is SCHEDULED"},
		{"running in its second life", living(job.Processing, 2), nil, promised(archived(job.Failed, 1)), nil,
			job.ErrWrongState, "the job is PROCESSING"},
		{"failed, not yet in SQL", living(job.NeedDiscard, 1), nil, nil, nil, job.ErrWrongState,
			"the job is FAILED: its failure is not in the archive yet"},
		{"failed, in SQL, not yet acknowledged", living(job.NeedDiscard, 1), nil, archived(job.Failed, 1), nil,
			job.ErrWrongState, "not in the archive yet"},
		{"promised to somebody else", nil, nil, promised(archived(job.Failed, 1)), nil, job.ErrWrongState, "somebody else"},
		{"promised to somebody else, Redis down", nil, job.ErrUnavailable, promised(archived(job.Failed, 1)), nil,
			job.ErrWrongState, "somebody else"},
		{"completed, in Redis", living(job.Completed, 1), nil, archived(job.Completed, 1), nil, job.ErrWrongState,
			"the job is COMPLETED"},
		{"completed, in SQL", nil, nil, archived(job.Completed, 1), nil, job.ErrWrongState, "only a FAILED job"},
		{"cancelled", nil, nil, archived(job.Cancelled, 1), nil, job.ErrWrongState, "only a FAILED job"},
		{"its row is gone", living(job.Failed, 1), nil, nil, nil, job.ErrWrongState, "not in the archive any more"},
		{"unknown", nil, nil, nil, nil, job.ErrNotFound, ""},
		{"SQL down", living(job.Failed, 1), nil, nil, job.ErrUnavailable, job.ErrUnavailable, ""},
		{"Redis down", nil, job.ErrUnavailable, archived(job.Failed, 1), nil, job.ErrUnavailable, ""},
		{"Redis down, unknown to SQL", nil, job.ErrAmbiguous, nil, nil, job.ErrUnavailable, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, r, s := given(tc.redis, tc.sql)
			r.down, s.down = tc.redisErr, tc.sqlErr
			old := s.rows[someID]
			err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"})
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) ||
				err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("%v, want %v saying %q", err, tc.want, tc.says)
			}
			if err != nil && (slices.Contains(r.calls, "restore") || s.rows[someID].RequestID != old.RequestID) {
				t.Error("refused, and yet something was changed")
			}
			if tc.redis != nil && r.jobs[bystand].Generation != 1 {
				t.Error("the bystander moved")
			}
		})
	}
}

// The next generation is pending with the fields of its dead letter, and its row names the incarnation that was
// known before the script.
func TestRequeue_GivesANewLife(t *testing.T) {
	t.Attr("proves", "S0-S7 S1-S5")
	l, r, s := given(living(job.Failed, 1), archived(job.Failed, 1))
	d := s.rows[someID]
	d.Options.CallbackURL, d.MaxRetries, d.Type, d.Owner, d.Attempt = "https://example.com/", 4, "SIMULATION", "k1", 7
	s.rows[someID] = d
	r.after = func(call string) error { // Redis starts anew just after the script
		if call == "restore" {
			r.run = "run-2"
		}
		return nil
	}
	if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"}); err != nil {
		t.Fatal(err)
	}
	j := r.jobs[someID]
	if j.Status != job.Pending || j.Generation != 2 || j.Attempt != 7 || j.MaxRetries != 4 || j.Type != d.Type ||
		j.Owner != "k1" ||
		string(j.Payload) != `{}` || j.Options != d.Options || j.Tier != job.Paid {
		t.Errorf("%+v", j)
	}
	if d = s.rows[someID]; d.Open() || s.living.rows[someID].Incarnation != "" {
		t.Errorf("the letter: %+v, the row %+v", d, s.living.rows[someID])
	}
	reconcile(t, l, 0)
	if run := s.living.rows[someID].Incarnation; run != "run-2" {
		t.Errorf("the row names %q", run)
	}
	r.after = nil
	for range 2 { // a repeat of the same request is the same promise
		if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"}); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if err := l.Requeue(t.Context(), someID, job.Request{}); !errors.Is(err, job.ErrWrongState) {
		t.Errorf("another request: %v", err)
	}
	if j := r.jobs[someID]; j.Generation != 2 {
		t.Errorf("generation %d", j.Generation)
	}
}

// Of many requests at once one gets the promise; there is one next generation, and the others get an error.
func TestRequeue_ManyAtOnce(t *testing.T) {
	t.Attr("proves", "S0-S7 S3-I12")
	l, r, s := given(nil, archived(job.Failed, 1))
	all := &meeting{Promises: s}
	all.Add(20)
	l.Promises = all
	var group sync.WaitGroup
	var mu sync.Mutex
	promised, refused := 0, 0
	for n := range 20 {
		group.Go(func() {
			err := l.Requeue(t.Context(), someID, job.Request{ID: fmt.Sprint("request ", n)})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				promised++
			case errors.Is(err, job.ErrWrongState):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if promised != 1 || refused != 19 || r.jobs[someID].Generation != 2 {
		t.Errorf("%d promised, %d refused, generation %d", promised, refused, r.jobs[someID].Generation)
	}
}

// meeting blocks every caller until all have read the dead letter.
type meeting struct {
	Promises
	sync.WaitGroup
}

func (m *meeting) DeadLetter(ctx context.Context, id job.ID) (job.DeadLetter, error) {
	d, err := m.Promises.DeadLetter(ctx, id)
	m.Done()
	m.Wait()
	return d, err
}

func TestRequeue_TierWithoutPlan(t *testing.T) {
	l, _, s := given(nil, archived(job.Failed, 1))
	l.Plans.(*job.PlanBook).Set(job.DefaultPlans()[1:])
	if err := l.Requeue(t.Context(), someID, job.Request{}); !errors.Is(err, job.ErrUnknownTier) {
		t.Errorf("%v", err)
	}
	d := s.rows[someID]
	if !d.Open() {
		t.Error("promised what cannot be kept")
	}
}

// Once the promise is made, the answer is nil, whatever happens to the rest. The next Reconcile, perhaps of
// another process, fulfils it.
func TestRequeue_CrashAfterThePromise(t *testing.T) {
	t.Attr("proves", "S0-E4 S0-S7 S1-E4")
	for _, tc := range []struct {
		name   string
		breaks func(r *fakeRedis, s *fakeSQL)
		calls  int // calls of the script before the Reconcile
	}{
		{"between promise and script", func(r *fakeRedis, s *fakeSQL) {
			s.after = func(call string) error {
				if call == "promise" {
					r.down = job.ErrUnavailable
				}
				return nil
			}
		}, 1}, // the script was refused
		{"the script's answer is lost, twice", func(r *fakeRedis, _ *fakeSQL) {
			r.after = func(call string) error {
				if call == "restore" {
					return job.ErrAmbiguous
				}
				return nil
			}
		}, 2},
		{"between script and mark", func(r *fakeRedis, s *fakeSQL) {
			r.after = func(call string) error {
				if call == "restore" {
					s.down = job.ErrUnavailable
				}
				return nil
			}
		}, 1},
		{"late, again and again", func(r *fakeRedis, _ *fakeSQL) {
			r.word = func(job.Job) job.Word { return job.Late }
		}, lateTries},
		{"the old one came back to life", func(r *fakeRedis, s *fakeSQL) {
			s.after = func(string) error { r.jobs[someID] = is(someID, job.Processing, 1); return nil }
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, r, s := given(nil, archived(job.Failed, 1))
			tc.breaks(r, s)
			if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"}); err != nil {
				t.Fatalf("after the promise: %v", err)
			}
			scripts := 0
			for _, c := range r.calls {
				if c == "restore" {
					scripts++
				}
			}
			if row := s.living.rows[someID]; row.Generation != 2 || row.Incarnation != "" || scripts != tc.calls {
				t.Fatalf("%d script calls, row %+v", scripts, row)
			}
			r.down, r.after, r.word, s.down, s.after = nil, nil, nil, nil, nil
			if r.jobs[someID].Status == job.Processing {
				r.jobs[someID] = is(someID, job.Failed, 1)
			}
			if _, err := l.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			row, j := s.living.rows[someID], r.jobs[someID]
			if row.Incarnation != "run-1" || j.Generation != 2 || j.Status != job.Pending {
				t.Errorf("row %+v, job %+v", row, j)
			}
		})
	}
}

// A caller that hangs up between promise and script does not stop the requeue.
func TestRequeue_CallerHangsUp(t *testing.T) {
	l, r, s := given(nil, archived(job.Failed, 1))
	ctx, cancel := context.WithCancel(t.Context())
	s.after = func(string) error { cancel(); return nil }
	if err := l.Requeue(ctx, someID, job.Request{}); err != nil || r.jobs[someID].Generation != 2 {
		t.Errorf("%v, job %+v", err, r.jobs[someID])
	}
}

// A promise whose answer was lost is repeated with the same request id.
func TestRequeue_PromiseInDoubt(t *testing.T) {
	l, r, s := given(nil, archived(job.Failed, 1))
	lost := 0
	s.after = func(string) error {
		if lost++; lost == 1 {
			return job.ErrAmbiguous
		}
		return nil
	}
	if err := l.Requeue(t.Context(), someID, job.Request{}); err != nil || r.jobs[someID].Generation != 2 {
		t.Errorf("%v, job %+v", err, r.jobs[someID])
	}
}

// A job that cannot be given delays no other, and a late one is sent again.
func TestGive_EachOnItsOwn(t *testing.T) {
	l, r, j := journaled(0)
	for n := range 5 {
		j.rows[testID(n)] = job.JournalRow{Job: is(testID(n), "", 2)}
	}
	strange := job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4") // of a partition that this cluster does not have
	j.rows[strange] = job.JournalRow{Job: is(strange, "", 2)}
	r.jobs[testID(0)], r.jobs[testID(1)] = is(testID(0), job.Processing, 1), is(testID(1), job.Completed, 2)
	late := 0
	r.word = func(j job.Job) job.Word {
		if j.ID == testID(4) && late == 0 {
			late++
			return job.Late
		}
		return ""
	}
	ids := []job.ID{testID(0), testID(1), testID(2), testID(3), testID(4), strange, testID(9)}
	if missing, err := l.Give(t.Context(), ids); missing != 3 || err != nil {
		t.Errorf("%d were missing, %v", missing, err)
	}
	for id, want := range map[job.ID]string{
		testID(0): "", testID(1): "run-1", testID(2): "run-1", testID(3): "run-1", testID(4): "run-1", strange: "",
	} {
		if run := j.rows[id].Incarnation; run != want {
			t.Errorf("%s names %q, want %q", id, run, want)
		}
	}
	if late != 1 || r.jobs[testID(4)].Status != job.Pending {
		t.Errorf("late %d times", late)
	}
}

// A client that repeats its request after a lost answer gets the same promise, also when the next generation has
// ended by then, in whatever way.
func TestRequeue_TheSameRequestAfterTheNextLife(t *testing.T) {
	for _, ended := range []job.Status{job.Failed, job.Completed} {
		l, r, s := given(living(job.Failed, 1), archived(job.Failed, 1))
		if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"}); err != nil {
			t.Fatal(err)
		}
		j := r.jobs[someID]
		j.Status = ended
		r.jobs[someID], s.rows[someID] = j, job.DeadLetter{Job: j}
		delete(s.living.rows, someID)
		if err := l.Requeue(t.Context(), someID, job.Request{ID: "mine"}); err != nil {
			t.Errorf("after %s: %v", ended, err)
		}
		if got := r.jobs[someID]; got.Generation != 2 || got.Status != ended {
			t.Errorf("the repeat made a life: %+v", got)
		}
		err := l.Requeue(t.Context(), someID, job.Request{ID: "another"})
		if (err == nil) != (ended == job.Failed) {
			t.Errorf("another request after %s: %v", ended, err)
		}
	}
}

// full is a queue that refuses each job with the error why.
type full struct{ why error }

func (f full) reserve(_ context.Context, j *job.Job, quota int) error {
	if j.ID != someID || j.Tier != job.Paid || j.Owner != "ann" || j.Generation != 2 || quota != 7 {
		return fmt.Errorf("asked for %+v within %d", j, quota)
	}
	return f.why
}

// An owner's requeue is refused, before any promise, if the owner's submit would be refused. A promise that was
// made is fulfilled without that check.
func TestRequeueOwn_NeedsRoom(t *testing.T) {
	t.Attr("proves", "A29")
	for _, why := range []error{job.ErrQueueFull, job.ErrQuota, job.ErrUnavailable, job.ErrAmbiguous, nil} {
		rows := archived(job.Failed, 1)
		d := rows[someID]
		d.Owner = "ann"
		rows[someID] = d
		l, r, s := given(nil, rows)
		l.Reserve = full{why}.reserve
		want := why
		if errors.Is(why, job.ErrAmbiguous) {
			want = job.ErrUnavailable // nothing was changed
		}
		err := l.RequeueOwn(t.Context(), someID, job.Request{ID: "mine"}, 7)
		if !errors.Is(err, want) || (err == nil) != (why == nil) {
			t.Fatalf("%v where there is %v", err, why)
		}
		if moved := slices.Contains(r.calls, "restore") || s.rows[someID].RequestID != ""; moved != (why == nil) {
			t.Errorf("with %v it was promised: %v", why, moved)
		}
		if why == nil {
			l.Reserve = full{job.ErrQueueFull}.reserve
			if err := l.RequeueOwn(t.Context(), someID, job.Request{ID: "mine"}, 7); err != nil {
				t.Errorf("asked again under the same key: %v", err)
			}
		}
	}
}

// A dead letter whose queue is not declared any more is not requeued: its job would be in no list.
func TestRequeue_QueueNotDeclared(t *testing.T) {
	for name, queues := range map[string]*job.QueueBook{"no queues": nil, "none": {}, "declared": {}} {
		letters := archived(job.Failed, 1)
		d := letters[someID]
		d.Queue = "films"
		letters[someID] = d
		l, _, s := given(nil, letters)
		if queues != nil {
			l.Options.Queues = queues
		}
		want := job.ErrUnknownQueue
		if name == "declared" {
			queues.Set([]job.Queue{{Name: "films"}})
			want = nil
		}
		if err := l.Requeue(t.Context(), someID, job.Request{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if d := s.rows[someID]; d.Open() != (want != nil) {
			t.Errorf("%s: open %v after %v", name, d.Open(), want)
		}
	}
}
