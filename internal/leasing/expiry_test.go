package leasing

import (
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A claim that does not wait gets the job behind those whose time is over.
func TestClaimPassesExpiredJobs(t *testing.T) {
	t.Parallel()
	for partitions := range map[int]bool{1: true, 3: true} {
		eachWorld(t, partitions, func(t *testing.T, w *world) {
			for range 5 {
				late := queuetest.Job(job.Paid)
				late.Queue, late.ExpiresMs = "films", 1
				if replies, err := w.Env.Submit(t.Context(), 0, []job.Submission{late}); err != nil || replies[0].Word != job.OK {
					t.Fatal(replies, err)
				}
			}
			ids := w.into(t, 0, "films", job.Paid, 1)
			leases := w.claims(t, claim("c1", 2, 0, "films"))
			if len(leases) != 1 || leases[0].ID != ids[0] {
				t.Fatalf("claimed %+v", leases)
			}
			w.End(t.Context(), "key", []job.WorkerReport{done(leases[0].Sealed)})
		})
	}
}
