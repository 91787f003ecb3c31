package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The jobs that come with a batch get the values that a submit would give them: an id in its partition, the plan's
// retries and longest wait, a place, a due time. They are refused as a whole where a submit is.
func TestPrepareBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := journaled(t, &fakeQueue{}, &fakeJournal{}, 4)
		b := &job.Batch{Owner: "key-1"}
		runAt := clock.Add(time.Hour)
		jobs := []job.Submission{
			{Tier: job.Paid, Type: "A", MaxRetries: -1, Owner: "key-1"},
			{Tier: job.Public, Type: "B", MaxRetries: 1, Delay: time.Minute, Payload: []byte(`1`), TraceID: "t"},
			{Tier: job.Paid, MaxRetries: 99, RunAt: runAt, Options: job.Options{Line: job.LineOf("a key"), CallbackURL: "u"}},
		}
		rows, err := a.PrepareBatch(t.Context(), b, jobs)
		if err != nil || len(rows) != 3 || b.ID == "" {
			t.Fatalf("%+v, %v", rows, err)
		}
		first := b.ID.Partition()
		for i, partition := range []int{first, (first + 1) % 4, job.Home(jobs[2].Home(), 4)} {
			r := &rows[i]
			if r.ID != job.BatchJobID(b.ID, i, partition) || r.Batch != string(b.ID) || jobs[i].ID != r.ID ||
				r.Generation != 1 || r.Submitting || r.Incarnation != "" || r.ArrivedAt.IsZero() {
				t.Errorf("row %d: %+v", i, r)
			}
		}
		paid, _ := a.plans.Plan(job.Paid)
		if r := rows[0]; r.MaxRetries != paid.MaxRetries || r.Priority != paid.Priority || !r.RunAt.IsZero() {
			t.Errorf("%+v", r)
		}
		if r := rows[1]; r.MaxRetries != 1 || !r.RunAt.Equal(r.ArrivedAt.Add(time.Minute)) || r.TraceID != "t" {
			t.Errorf("%+v", r)
		}
		if r := rows[2]; r.MaxRetries != paid.MaxRetries || !r.RunAt.Equal(runAt) || r.CallbackURL != "u" {
			t.Errorf("%+v", r)
		}
		paid.MaxWait = time.Minute
		a.plans.Set([]job.Plan{paid})
		rows, err = a.PrepareBatch(t.Context(), b, jobs[:1])
		if err != nil || rows[0].ExpiresMs < rows[0].ArrivedAt.Add(time.Minute).UnixMilli() {
			t.Errorf("with a longest wait: %+v, %v", rows, err)
		}
		line := job.Submission{Tier: job.Paid, Owner: "key-1", Options: job.Options{Line: job.LineOf("a key")}}
		rows, err = a.PrepareBatch(t.Context(), b, []job.Submission{line, line, line, line})
		for i := range rows { // a line has one partition
			if rows[i].ID.Partition() != job.Home(line.Home(), 4) {
				t.Errorf("job %d of the line is in partition %d, %v", i, rows[i].ID.Partition(), err)
			}
		}
		paid.Lines = job.LinesOwner
		a.plans.Set([]job.Plan{paid})
		rows, err = a.PrepareBatch(t.Context(), b, []job.Submission{{Tier: job.Paid, Owner: "key-1"}})
		if err != nil || rows[0].Line != job.LineOfOwner("key-1") {
			t.Errorf("in a tier with a line per owner: %+v, %v", rows, err)
		}
		a.pauses.Set(job.Pauses{List: []job.Pause{{Scope: job.PauseTier(job.Paid), Refuse: true}}, Version: 1})
		if _, err := a.PrepareBatch(t.Context(), b, jobs[:1]); !errors.Is(err, job.ErrPaused) {
			t.Errorf("a paused tier: %v", err)
		}
		a.pauses.Set(job.Pauses{Version: 2})
		if _, err := a.PrepareBatch(t.Context(), b, jobs); !errors.Is(err, job.ErrUnknownTier) {
			t.Errorf("a tier without a plan: %v", err)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.PrepareBatch(t.Context(), b, jobs[:1]); !errors.Is(err, job.ErrUnhealthy) {
			t.Errorf("a stopping server: %v", err)
		}
	})
}
