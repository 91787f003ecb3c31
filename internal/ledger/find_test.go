package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func promised(d map[job.ID]job.DeadLetter) map[job.ID]job.DeadLetter {
	l := d[someID]
	l.RequestedAt, l.RequestID = time.Now(), "r"
	d[someID] = l
	return d
}

func TestFind(t *testing.T) {
	shed := living(job.Completed, 1)
	whole := living(job.Completed, 1)
	j := whole[someID]
	j.Result = []byte(`1`)
	whole[someID] = j
	broken := errors.New("find: the hash is broken")
	for _, tc := range []struct {
		name     string
		redis    map[job.ID]job.Job
		redisErr error
		sql      map[job.ID]job.DeadLetter
		sqlErr   error
		want     job.Status
		wantGen  int
		wantErr  error
	}{
		{"living", living(job.Processing, 2), nil, archived(job.Failed, 1), nil, job.Processing, 2, nil},
		{"living, SQL down", living(job.Processing, 1), nil, nil, job.ErrUnavailable, job.Processing, 1, nil},
		{"unknown", nil, nil, nil, nil, "", 0, job.ErrNotFound},
		{"Redis forgot it", nil, nil, archived(job.Cancelled, 1), nil, job.Cancelled, 1, nil},
		{"Redis forgot it, SQL down", nil, nil, nil, job.ErrUnavailable, "", 0, job.ErrUnavailable},
		{"Redis shed the result", shed, nil, archived(job.Completed, 1), nil, job.Completed, 1, nil},
		{"Redis shed the result, SQL down", shed, nil, nil, job.ErrUnavailable, "", 0, job.ErrUnavailable},
		{"no result was reported, and SQL has no outcome yet", shed, nil, nil, nil, job.Completed, 1, nil},
		{"Redis has the result, SQL down", whole, nil, nil, job.ErrUnavailable, job.Completed, 1, nil},
		{"failed, not yet in SQL", living(job.NeedDiscard, 1), nil, nil, nil, job.NeedDiscard, 1, nil},
		{"failed", living(job.Failed, 1), nil, archived(job.Failed, 1), nil, job.Failed, 1, nil},
		{"failed, SQL down", living(job.Failed, 1), nil, nil, job.ErrUnavailable, job.Failed, 1, nil},
		{
			"failed, and a requeue was promised", living(job.Failed, 1), nil, promised(archived(job.Failed, 1)), nil,
			job.Pending, 2, nil,
		},
		{"failed again after a requeue", living(job.Failed, 2), nil, archived(job.Failed, 2), nil, job.Failed, 2, nil},
		{"Redis forgot it, failed", nil, nil, archived(job.Failed, 1), nil, job.Failed, 1, nil},
		{
			"Redis forgot it, and a requeue was promised", nil, nil, promised(archived(job.Failed, 1)), nil,
			job.Pending, 2, nil,
		},
		{"Redis went back in time", living(job.Failed, 1), nil, archived(job.Completed, 2), nil, job.Completed, 2, nil},
		{"Redis down, completed", nil, job.ErrUnavailable, archived(job.Completed, 1), nil, job.Completed, 1, nil},
		{"Redis down, cancelled", nil, job.ErrAmbiguous, archived(job.Cancelled, 1), nil, job.Cancelled, 1, nil},
		{"Redis down, failed for good", nil, job.ErrUnavailable, archived(job.Failed, 1), nil, job.Failed, 1, nil},
		{"Redis down, failed, but a requeue was promised", nil, job.ErrUnavailable, promised(archived(job.Failed, 1)), nil,
			"", 0, job.ErrUnavailable},
		{"Redis down, unknown to SQL", nil, job.ErrAmbiguous, nil, nil, "", 0, job.ErrAmbiguous},
		{"both down", nil, job.ErrAmbiguous, nil, job.ErrUnavailable, "", 0, job.ErrAmbiguous},
		{"our own fault", nil, broken, archived(job.Failed, 1), nil, "", 0, broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, r, s := given(tc.redis, tc.sql)
			r.down, s.down = tc.redisErr, tc.sqlErr
			j, err := l.Find(t.Context(), someID)
			if j.Status != tc.want || j.Generation != tc.wantGen || !errors.Is(err, tc.wantErr) ||
				(err == nil) != (tc.wantErr == nil) {
				t.Errorf("%s in generation %d, %v; want %s in %d, %v", j.Status, j.Generation, err, tc.want, tc.wantGen, tc.wantErr)
			}
		})
	}
}

// The next generation of a dead job ends between two reads of one poll, and its row is gone. The poll shows that
// end, not the dead generation, which a client may have seen before.
func TestFind_ThePromisedLifeEnds(t *testing.T) {
	for name, redis := range map[string]map[job.ID]job.Job{
		"Redis forgot it": nil, "Redis went back": living(job.Failed, 1),
	} {
		t.Run(name, func(t *testing.T) {
			l, _, s := given(redis, promised(archived(job.Failed, 1)))
			s.living.readRow = func() {
				delete(s.living.rows, someID)
				s.rows[someID] = archived(job.Completed, 2)[someID]
			}
			if j, err := l.Find(t.Context(), someID); err != nil || j.Status != job.Completed || j.Generation != 2 {
				t.Errorf("%s in generation %d, %v", j.Status, j.Generation, err)
			}
		})
	}
}

// A job that Redis lost gets its outcome between a poll's, or a cancel's, read of the outcomes and its read of the row,
// which goes with the outcome.
func TestFind_ALostJobEnds(t *testing.T) {
	for name, ask := range map[string]func(l *Ledger) error{
		"poll": func(l *Ledger) error {
			j, err := l.Find(t.Context(), someID)
			if err == nil && j.Status != job.Cancelled {
				t.Errorf("it is %s", j.Status)
			}
			return err
		},
		"cancel": func(l *Ledger) error {
			word, err := l.Cancel(t.Context(), someID)
			if err == nil && word != job.WasCancelled {
				t.Errorf("a cancel answers %s", word)
			}
			return err
		},
		"requeue": func(l *Ledger) error {
			if err := l.Requeue(t.Context(), someID, job.Request{ID: "r"}); !errors.Is(err, errBetween) {
				t.Errorf("a requeue answers %v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, s := given(nil, map[job.ID]job.DeadLetter{})
			s.living.rows[someID] = job.JournalRow{}
			s.living.readRow = func() {
				delete(s.living.rows, someID)
				s.rows[someID] = archived(job.Cancelled, 1)[someID]
			}
			if err := ask(l); err != nil {
				t.Error(err)
			}
		})
	}
}

// SQL answers the read of the outcome and not the read of the row. If Redis no longer has the job, it is unknown
// whether the job was requeued; if Redis shows it FAILED, that stands.
func TestFind_HalfAnAnswer(t *testing.T) {
	l, _, s := given(nil, promised(archived(job.Failed, 1)))
	s.living.down = job.ErrUnavailable
	if j, err := l.Find(t.Context(), someID); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Redis forgot it: %s in generation %d, %v", j.Status, j.Generation, err)
	}
	l, _, s = given(living(job.Failed, 1), promised(archived(job.Failed, 1)))
	s.living.down = job.ErrUnavailable
	if j, err := l.Find(t.Context(), someID); err != nil || j.Status != job.Failed {
		t.Errorf("Redis has it: %s, %v", j.Status, err)
	}
}

// Whole returns payload and options of a living job and of a dead letter. For other jobs it returns neither, even
// if Redis has not deleted them yet.
func TestWhole(t *testing.T) {
	letter := func(generation int) map[job.ID]job.DeadLetter {
		all := archived(job.Failed, generation)
		d := all[someID]
		d.Payload, d.CallbackURL = []byte(`"in SQL"`), "https://sql.example"
		all[someID] = d
		return all
	}
	broken := errors.New("the options are broken")
	for _, tc := range []struct {
		name    string
		status  job.Status
		sql     map[job.ID]job.DeadLetter
		sqlErr  error
		payload string
		kept    bool
		wantErr error
	}{
		{"living", job.Pending, nil, job.ErrUnavailable, `{}`, true, nil},
		{"running", job.Processing, letter(1), nil, `{}`, true, nil},
		{"failed, not yet in SQL", job.NeedDiscard, nil, job.ErrUnavailable, `{}`, true, nil},
		{"a dead letter", job.Failed, letter(1), nil, `"in SQL"`, true, nil},
		{"a dead letter, SQL down", job.Failed, nil, job.ErrUnavailable, ``, false, job.ErrUnavailable},
		{"a dead letter, SQL does not say", job.Failed, nil, job.ErrAmbiguous, ``, false, job.ErrAmbiguous},
		{"a dead letter that is gone", job.Failed, nil, nil, ``, false, nil},
		{"a dead letter of another life", job.Failed, letter(2), nil, ``, false, nil},
		{"a dead letter that cannot be read", job.Failed, nil, broken, ``, false, nil},
		{"failed, ended otherwise meanwhile", job.Failed, archived(job.Completed, 2), nil, ``, false, nil},
		{"completed", job.Completed, nil, job.ErrUnavailable, ``, false, nil},
		{"cancelled", job.Cancelled, nil, job.ErrUnavailable, ``, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, s := given(nil, tc.sql)
			s.down = tc.sqlErr
			j := is(someID, tc.status, 1)
			j.CallbackURL = "https://redis.example"
			whole, kept, err := l.Whole(t.Context(), j)
			if !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) || kept != tc.kept {
				t.Fatalf("kept: %t, %v; want %t, %v", kept, err, tc.kept, tc.wantErr)
			}
			if err == nil && (string(whole.Payload) != tc.payload || (whole.CallbackURL == "") == kept ||
				whole.Status != tc.status) {
				t.Errorf("%s, %s, %s; want %s", whole.Status, whole.Payload, whole.CallbackURL, tc.payload)
			}
		})
	}
}

func TestFind_AStoreThatHangs(t *testing.T) {
	l, _, _ := given(nil, archived(job.Completed, 1))
	var asked time.Duration
	l.Live = hanging{l.Live, func(ctx context.Context) {
		at, _ := ctx.Deadline()
		asked = time.Until(at)
	}}
	if j, err := l.Find(t.Context(), someID); err != nil || j.Status != job.Completed {
		t.Errorf("%s, %v", j.Status, err)
	}
	if asked <= 0 || asked > livePatience {
		t.Errorf("Redis was given %s", asked)
	}
}

// hanging is a store that does not answer until the deadline.
type hanging struct {
	Store
	asked func(ctx context.Context)
}

func (h hanging) Find(ctx context.Context, _ job.ID) (job.Job, error) {
	h.asked(ctx)
	return job.Job{}, job.ErrAmbiguous
}

func attempts(numbers ...int) (all []job.Attempt) {
	for _, n := range numbers {
		all = append(all, job.Attempt{Number: n, Outcome: string(job.HandlerError)})
	}
	return all
}

// The history has the attempts of both stores, over all generations, or is an error.
func TestAttempts(t *testing.T) {
	t.Attr("proves", "S1-P3 S0-P2")
	for _, tc := range []struct {
		name       string
		redis, sql []job.Attempt
		live       map[job.ID]job.Job
		rows       map[job.ID]job.DeadLetter
		redisErr   error
		sqlErr     error
		want       []int
		wantErr    error
	}{
		{"in both", attempts(5, 6), attempts(1, 2, 4), living(job.Processing, 2), archived(job.Failed, 1), nil, nil,
			[]int{1, 2, 4, 5, 6}, nil},
		{"one twice", attempts(2, 3), attempts(3, 1, 2), nil, nil, nil, nil, []int{1, 2, 3}, nil},
		{"none", nil, nil, nil, nil, nil, nil, nil, nil},
		{"Redis down, ended", nil, attempts(1, 2), nil, archived(job.Failed, 1), job.ErrUnavailable, nil, []int{1, 2}, nil},
		{"Redis down, living perhaps", nil, attempts(1), nil, promised(archived(job.Failed, 1)), job.ErrUnavailable, nil, nil,
			job.ErrUnavailable},
		{"Redis never knew it", nil, attempts(1), nil, archived(job.Failed, 1), job.ErrNotFound, nil, []int{1}, nil},
		{"SQL down, first life", attempts(1, 2), nil, living(job.Scheduled, 1), nil, nil, job.ErrUnavailable, []int{1, 2},
			nil},
		{"SQL down, on the way there", attempts(1, 2), nil, living(job.NeedDiscard, 1), nil, nil, job.ErrUnavailable,
			[]int{1, 2}, nil},
		{"SQL down, second life", attempts(4), nil, living(job.Pending, 2), nil, nil, job.ErrUnavailable, nil,
			job.ErrUnavailable},
		{"SQL down, acknowledged", nil, nil, living(job.Failed, 1), nil, nil, job.ErrUnavailable, nil, job.ErrUnavailable},
		{"both down", nil, nil, nil, nil, job.ErrAmbiguous, job.ErrUnavailable, nil, job.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, r, s := given(tc.live, tc.rows)
			r.attempts[someID], s.attempts[someID] = tc.redis, tc.sql
			r.down, s.down = tc.redisErr, tc.sqlErr
			got, err := l.Attempts(t.Context(), someID)
			var numbers []int
			for _, a := range got {
				numbers = append(numbers, a.Number)
			}
			if !slices.Equal(numbers, tc.want) || !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Errorf("%v, %v; want %v, %v", numbers, err, tc.want, tc.wantErr)
			}
		})
	}
}
