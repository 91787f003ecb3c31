package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// oneFlow is a store with one job of a flow, or a store that fails.
type oneFlow struct {
	Flows
	job job.FlowJob
	err error
}

func (f oneFlow) FlowJob(_ context.Context, id job.ID) (job.FlowJob, error) {
	if f.err == nil && id != f.job.ID {
		return job.FlowJob{}, job.ErrNotFound
	}
	return f.job, f.err
}

// The requeue of a job that waits in a flow says how the job stands, not that there is no such job.
func TestRequeue_WaitsInAFlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   job.ID
		err  error
		want error
		says string
	}{
		{someID, nil, job.ErrWrongState, "the job is WAITING"},
		{bystand, nil, job.ErrNotFound, ""},
		{someID, job.ErrUnavailable, job.ErrUnavailable, ""},
	} {
		l, _, _ := given(nil, nil)
		waits := job.FlowJob{}
		waits.ID, waits.Status = someID, job.Waiting
		l.Options.Flows = oneFlow{job: waits, err: c.err}
		err := l.Requeue(t.Context(), c.id, job.Request{ID: "mine"})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %v: %v, want %v saying %q", c.id, c.err, err, c.want, c.says)
		}
	}
}
