package archive_test

import (
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// The jobs that a flow cancels are counted once, whether an outcome, a cancel of a job or a cancel of the flow decides
// that.
func TestFlowCountsCancelled(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
		var mu sync.Mutex
		var counted []job.Job
		a.TellCancelled(func(jobs []job.Job) {
			mu.Lock()
			defer mu.Unlock()
			counted = append(counted, jobs...)
		})
		want := func(n int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(counted) != n {
				t.Errorf("%v are counted, want %d", counted, n)
			}
		}
		createFlow(t, a, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"),
			flowJob("c", job.FlowCancels, "b"), flowJob("d", job.FlowCancels), flowJob("e", job.FlowCancels, "d"),
			flowJob("f", job.FlowCancels, "d"))
		want(0)
		endAs(t, a, w, map[string]job.Status{"a": job.Failed}) // and b and c are cancelled
		want(2)
		if _, _, err := a.CancelWaiting(t.Context(), job.FlowJobID(flowID, "e", 0), flowTime); err != nil {
			t.Fatal(err)
		}
		want(3)
		for range 2 {
			if _, err := a.CancelFlow(t.Context(), flowID, "", flowTime); err != nil { // and f is cancelled
				t.Fatal(err)
			}
			want(4)
		}
	})
}
