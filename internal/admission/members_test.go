package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// members starts an Admission whose journal has only the members of batches.
func members(t *testing.T, q Queue, j *fakeJournal) *Admission {
	t.Helper()
	a := journaled(t, q, j, 1)
	a.all = false
	return a
}

// Without the accept journal only the submits with a batch have a row. A batch that refuses a member refuses it alone,
// and a row whose job Redis refuses is taken back with its batch.
func TestMembers_HaveARow(t *testing.T) {
	t.Attr("proves", "F19")
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{refuses: map[string]error{"sealed": job.ErrSealed, "none": job.ErrNoBatch}}
		full := ""
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			replies := make([]job.SubmitReply, len(batch))
			for i, s := range batch {
				if replies[i].Word = job.OK; s.Type == full {
					replies[i].Word = job.Full
				}
				replies[i].ArrivedAt = clock
			}
			return replies, nil
		}}
		a := members(t, q, j)
		of := func(batch, typ string) job.Submission {
			return job.Submission{Tier: job.Paid, Type: typ, Options: job.Options{Batch: batch}}
		}
		all := a.SubmitBatch(t.Context(), []job.Submission{
			of("", "A"), of("b", "B"), of("sealed", "C"), of("", "D"), of("none", "E"), of("b", "F"),
		})
		for i, want := range []error{nil, nil, job.ErrSealed, nil, job.ErrNoBatch, nil} {
			if !errors.Is(all[i].Err, want) || (want == nil) != (all[i].ID != "") {
				t.Errorf("entry %d: %+v, want %v", i, all[i], want)
			}
		}
		var rows []job.ID
		for _, r := range j.rows {
			rows = append(rows, r.ID)
		}
		if !slices.Equal(rows, []job.ID{all[1].ID, all[5].ID}) || !slices.Equal(j.writes, []int{4}) {
			t.Errorf("rows %q, written %v at once", rows, j.writes)
		}
		if len(j.stamped) != 2 {
			t.Errorf("stamped %+v", j.stamped)
		}
		full = "G"
		if _, err := a.Submit(t.Context(), of("b", "G")); !errors.Is(err, job.ErrQueueFull) {
			t.Errorf("a full Redis: %v", err)
		}
		if len(j.back) != 1 || j.back[0].Batch != "b" {
			t.Errorf("taken back %+v", j.back)
		}
		<-time.After(2 * shortMemory)
		j.err = job.ErrUnavailable
		if _, err := a.Submit(t.Context(), of("b", "H")); !errors.Is(err, job.ErrUnhealthy) {
			t.Errorf("SQL down, with a batch: %v", err)
		}
		if _, err := a.Submit(t.Context(), of("", "I")); err != nil {
			t.Errorf("SQL down, without a batch: %v", err)
		}
	})
}
