package job_test

import (
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// The ids of the jobs that came with a batch are in their order, have the partition asked for, and differ from all
// other ids.
func TestBatchJobID(t *testing.T) {
	t.Parallel()
	const batch, other = job.ID("019de340-01fe-7a58-be69-567cd7d6b702"), job.ID("019de340-01fe-7a58-be69-567cd7d6b703")
	var ids []job.ID
	for n := range job.MaxBatchJobs {
		id := job.BatchJobID(batch, n, n%7)
		again, err := job.ParseID(string(id))
		if err != nil || again != id || id.Partition() != n%7 || id[:13] != batch[:13] {
			t.Fatalf("job %d: %s, %v", n, id, err)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Error("the ids are not in the order of the jobs")
	}
	mixed := append(slices.Clone(ids), batch, other, job.BatchJobID(other, 3, 0), "", "x")
	if !slices.Equal(job.CameWith(batch, mixed), ids) {
		t.Error("other ids are taken for those of the batch")
	}
}
