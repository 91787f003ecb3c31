package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A poll shows each status of a job's life, with the words of S2-S1 and those that the seed's text implies.
func TestFind(t *testing.T) {
	t.Attr("proves", "S2-S1 S0-T1 S3-I1")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		find := func(id job.ID) job.Job {
			t.Helper()
			j, err := e.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		s := later(job.Paid, time.Minute)
		e.PutAll(t, s)
		same(t, "status", find(s.ID).Status, job.Scheduled)
		e.Age(t, "scheduled", time.Hour)
		if _, err := e.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		same(t, "status", find(s.ID).Status, job.Pending)
		same(t, "due", find(s.ID).RunAt.IsZero(), true)
		l := e.Take(t, 1)[0]
		j := find(s.ID)
		same(t, "status", j.Status, job.Processing)
		same(t, "attempt", j.Attempt, 1)
		same(t, "started", j.StartedAt, l.StartedAt)
		same(t, "arrived", j.ArrivedAt, l.ArrivedAt)
		e.Bury(t, l)
		j = find(s.ID)
		same(t, "status", j.Status, job.NeedDiscard)
		same(t, "as users see it", j.Status.Shown(), job.Failed)
		same(t, "cause", j.Cause, job.PermanentError)
		e.Drain(t)
		j = find(s.ID)
		same(t, "status", j.Status, job.Failed)
		same(t, "payload", j.Payload == nil, true)
	})
}

// A history that cannot be read is an error, also for a job that Redis does not have. A job without a history has
// no attempts and no error.
func TestAttemptsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		known, gone := e.Put(t, job.Paid), queuetest.NewID(0)
		for _, id := range []job.ID{known, gone} {
			if attempts, err := e.Attempts(t.Context(), id); len(attempts) != 0 || err != nil {
				t.Errorf("%s has none: %v, %v", id, attempts, err)
			}
			lines := queue.Key(0, "attempts") + string(id)
			e.Redis.Set(t.Context(), lines, "no list", 0)
			if _, err := e.Attempts(t.Context(), id); err == nil || errors.Is(err, job.ErrNotFound) {
				t.Errorf("the history of %s is no list: %v", id, err)
			}
			e.Redis.Del(t.Context(), lines)
		}
		record := queue.JobKey(gone)
		e.Redis.HSet(t.Context(), record, "no", "text")
		if _, err := e.Attempts(t.Context(), gone); err == nil {
			t.Error("a job whose record is no text has a history")
		}
		e.Redis.Del(t.Context(), record)
	})
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, id := range []job.ID{queuetest.NewID(0), queuetest.NewID(7), "", "x", "019de340-0000-7000-8000-0000000000zz"} {
			if _, err := e.Find(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		id := e.Put(t, job.Paid)
		e.Edit(t, "job", id, func(text string) string { return strings.Replace(text, " ", "_", 1) })
		if _, err := e.Find(t.Context(), id); err == nil || errors.Is(err, job.ErrNotFound) {
			t.Errorf("a torn head: %v", err) // an error other than ErrNotFound
		}
		e.Broken(t, "torn")
	})
}
