package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// readyIDs is a Redis whose queue films has these ready jobs.
type readyIDs struct {
	ids []job.ID
	err error
}

func (r readyIDs) ReadyIn(_ context.Context, queue string, limit int) ([]job.ID, error) {
	if queue != "films" {
		return nil, fmt.Errorf("asked for %q", queue)
	}
	return r.ids[:min(limit, len(r.ids))], r.err
}

func TestPurge(t *testing.T) {
	jobs := map[job.ID]job.Job{
		testID(1): is(testID(1), job.Pending, 1), testID(2): is(testID(2), job.Processing, 1),
		testID(3): is(testID(3), job.Completed, 1), testID(4): is(testID(4), job.Pending, 1),
	}
	l, r, _ := given(jobs, nil)
	l.Ready = readyIDs{ids: []job.ID{testID(1), testID(2), testID(3), testID(5), testID(4)}}
	cancelled, more, err := l.Purge(t.Context(), "films")
	if cancelled != 2 || more || err != nil { // one runs meanwhile, one has ended, one is gone
		t.Errorf("%d cancelled, more %v, %v", cancelled, more, err)
	}
	for n, want := range map[int]job.Status{1: job.Cancelled, 3: job.Completed, 4: job.Cancelled} {
		if got := r.jobs[testID(n)].Status.Shown(); got != want {
			t.Errorf("job %d is %s, want %s", n, got, want)
		}
	}
}

// A purge cancels a bounded number of jobs, and says whether there may be more.
func TestPurge_IsBounded(t *testing.T) {
	jobs, ids := map[job.ID]job.Job{}, []job.ID{}
	for n := range purgeMost + 1 {
		ids = append(ids, testID(n))
		jobs[testID(n)] = is(testID(n), job.Pending, 1)
	}
	l, _, _ := given(jobs, nil)
	l.Ready = readyIDs{ids: ids}
	if cancelled, more, err := l.Purge(t.Context(), "films"); cancelled != purgeMost || !more || err != nil {
		t.Errorf("%d cancelled, more %v, %v", cancelled, more, err)
	}
}

func TestPurge_WithoutRedis(t *testing.T) {
	l, r, _ := given(map[job.ID]job.Job{testID(1): is(testID(1), job.Pending, 1)}, nil)
	l.Ready = readyIDs{err: job.ErrUnavailable}
	if cancelled, _, err := l.Purge(t.Context(), "films"); cancelled != 0 || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%d cancelled, %v", cancelled, err)
	}
	l.Ready, r.down = readyIDs{ids: []job.ID{testID(1)}}, job.ErrUnavailable
	cancelled, more, err := l.Purge(t.Context(), "films")
	if cancelled != 0 || !more || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%d cancelled, more %v, %v", cancelled, more, err)
	}
}
