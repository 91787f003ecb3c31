package chaos

import (
	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// batchFacts adds the numbers of batches, rounds and members to the report.
func batchFacts(report *check.Report, e *check.Evidence) {
	sealed, members, rounds, again := 0, 0, 0, 0
	ends := map[job.Status]int{}
	for i := range e.Batches {
		b := &e.Batches[i]
		members += len(b.Members)
		rounds += b.EndedRound
		again += b.Round - 1
		if b.Sealed {
			sealed++
		}
		for _, m := range b.Members {
			ends[m.Status]++
		}
	}
	thens := map[job.ID]bool{}
	for i := range e.Runs {
		if e.Runs[i].Batch != nil {
			thens[e.Runs[i].ID] = true
		}
	}
	report.Fact("batches", "%d, %d of them sealed; %d rounds ended, %d of them after a requeue; %d then jobs ran",
		len(e.Batches), sealed, rounds, again, len(thens))
	report.Fact("their members", "%d: %d completed, %d failed, %d cancelled, %d expired", members, ends[job.Completed],
		ends[job.Failed], ends[job.Cancelled], ends[job.Expired])
}
