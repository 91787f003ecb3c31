package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A repeated submit whose first one has no row gets it now, unless the job has ended, and its key in any case; a job that nobody knows is nobody's.
func TestAdopt(t *testing.T) {
	t.Attr("proves", "F19 S13")
	l, r, j := journaled(1)
	running, cancelled := is(testID(3), job.Processing, 1), is(testID(5), job.Cancelled, 1)
	running.StartedAt, running.Worker = time.Now(), "w"
	r.jobs[running.ID], r.jobs[cancelled.ID] = running, cancelled
	j.ended[testID(4)] = true
	first := func(n int, key string) job.KeyKept {
		return job.KeyKept{ID: testID(n), Idempotency: job.Idempotency{Key: key, Body: "b"}}
	}
	firsts := []job.KeyKept{first(0, "living"), first(3, "running"), first(4, "ended"), first(5, "cancelled")}
	if err := l.EnsureJournaled(t.Context(), firsts); err != nil {
		t.Fatal(err)
	}
	if row := j.rows[running.ID]; row.Incarnation != "run-1" || row.Priority != 1 || row.Running() ||
		row.Attempt != 3 ||
		row.CancelRequested ||
		row.Idempotency != first(3, "running").Idempotency {
		t.Errorf("row %+v", row)
	}
	if row := j.rows[cancelled.ID]; !row.CancelRequested {
		t.Errorf("it would run after a loss of Redis: %+v", row)
	}
	if want := []job.KeyKept{first(0, "living"), first(4, "ended")}; !slices.Equal(j.kept, want) {
		t.Errorf("keys %v, want %v", j.kept, want)
	}
	if len(j.rows) != 3 {
		t.Errorf("%d rows", len(j.rows))
	}
	if err := l.EnsureJournaled(t.Context(), []job.KeyKept{first(9, "nobody's")}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("nobody's job: %v", err)
	}
	j.down = job.ErrUnavailable
	if err := l.EnsureJournaled(t.Context(), []job.KeyKept{first(4, "ended")}); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("SQL down: %v", err)
	}
}
