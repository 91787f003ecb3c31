package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A job that ends while the journal is read, and leaves nothing in Redis, is not restored, before whichever read
// it ends.
func TestReconcile_EndsMeanwhile(t *testing.T) {
	for name, when := range map[string]func(r *restorer, ends func()){
		"before Redis is asked": func(r *restorer, ends func()) { r.before = ends },
		"after it was there":    func(r *restorer, ends func()) { r.after = func(string) error { ends(); return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			l, r, j := journaled(3)
			r.jobs[testID(1)] = is(testID(1), job.Processing, 1)
			when(r, func() {
				delete(r.jobs, testID(1))
				j.ended[testID(1)] = true
			})
			reconcile(t, l, 2)
			if _, back := r.jobs[testID(1)]; back {
				t.Error("it runs a second time")
			}
		})
	}
}

// A cancel that is stored while its job is looked for, or restored, reaches Redis before the row is marked as
// found.
func TestReconcile_ACancelMeanwhile(t *testing.T) {
	for _, verb := range []string{"missing", "restore"} {
		l, r, j := journaled(2)
		r.jobs[testID(1)] = is(testID(1), job.Pending, 1) // Redis has this job and not the other one
		noted := false
		r.after = func(name string) error {
			if name == verb && !noted {
				noted = true
				for n := range 2 {
					row := j.rows[testID(n)]
					row.CancelRequested = true
					j.rows[testID(n)] = row
				}
			}
			return nil
		}
		if _, err := l.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again, err := l.Reconcile(t.Context()); err != nil || again != 0 {
			t.Fatal(again, err)
		}
		for n := range 2 {
			if verb == "restore" && n == 1 {
				continue // that row was marked as found before
			}
			if got := r.jobs[testID(n)].Status; got != job.Cancelled {
				t.Errorf("noted after %s: job %d is %s", verb, n, got)
			}
		}
	}
}

// Redis may have an earlier generation of a job: that is not the generation of the row.
func TestReconcile_AnEarlierLife(t *testing.T) {
	l, r, j := journaled(0)
	for n, there := range []int{1, 2, 3, 0} {
		j.rows[testID(n)] = job.JournalRow{Incarnation: "run-0", Job: is(testID(n), job.Pending, 2)}
		if there > 0 {
			r.jobs[testID(n)] = is(testID(n), job.Pending, there)
		}
	}
	reconcile(t, l, 1)
	if !slices.Equal(r.batches, []int{1, 1}) { // the first one, whose answer is busy, and the last one
		t.Errorf("sent %v", r.batches)
	}
	for n, want := range []string{"run-0", "run-1", "run-1", "run-1"} {
		if got := j.rows[testID(n)].Incarnation; got != want {
			t.Errorf("%d names %s, want %s", n, got, want)
		}
	}
}

// A job that was cancelled is cancelled again when it is restored.
func TestReconcile_Cancels(t *testing.T) {
	l, r, j := journaled(4)
	for _, n := range []int{0, 2} {
		row := j.rows[testID(n)]
		row.CancelRequested = true
		j.rows[testID(n)] = row
	}
	r.jobs[testID(2)] = is(testID(2), job.Pending, 1) // the job survived, its cancel did not
	reconcile(t, l, 3)
	for n, want := range []job.Status{job.Cancelled, job.Pending, job.Cancelled, job.Pending} {
		if got := r.jobs[testID(n)].Status; got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if _, err := l.Cancel(t.Context(), testID(1)); err != nil || !slices.Equal(j.cancelling, []job.ID{testID(1)}) {
		t.Errorf("%v, the journal heard of %v", err, j.cancelling)
	}
	j.down = job.ErrUnavailable
	if word, err := l.Cancel(t.Context(), testID(0)); !errors.Is(err, job.ErrAmbiguous) || word != "" {
		t.Errorf("the journal down: %s, %v", word, err)
	}
	l.Journaled = false // without a journal only Redis has to have the cancel
	if word, err := l.Cancel(t.Context(), testID(0)); err != nil || word != job.WasCancelled {
		t.Errorf("no journal, SQL down: %s, %v", word, err)
	}
}

// lateSecond has the first job of a batch, is late for the others, and then does not answer.
type lateSecond struct {
	*restorer
	calls int
}

func (r *lateSecond) Restore(_ context.Context, _ int, batch []job.JournalRow, _ time.Time) ([]job.Word, error) {
	if r.calls++; r.calls > 1 {
		return nil, job.ErrUnavailable
	}
	words := slices.Repeat([]job.Word{job.Late}, len(batch))
	words[0] = job.Duplicate
	return words, nil
}

// A cancelled job is cancelled again although the rest of its call fails.
func TestGiveBack_CancelsWhatItCan(t *testing.T) {
	l, r, j := journaled(3)
	l.Restorer = &lateSecond{restorer: r}
	row := j.rows[testID(0)]
	row.CancelRequested = true
	r.jobs[row.ID] = is(row.ID, job.Pending, 1)
	_, err := l.GiveRows(t.Context(), []job.JournalRow{row, j.rows[testID(2)]}, time.Now())
	if !errors.Is(err, job.ErrUnavailable) {
		t.Error(err)
	}
	if got := r.jobs[row.ID].Status; got != job.Cancelled {
		t.Errorf("it is %s", got)
	}
}
