package archive

import (
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A key that expires between the insert and the read of the same transaction still belongs to its job, and other
// submits meet it. Here keys stay for 0 ms, so that they expire as they are written.
func TestKeyThatExpiresMeanwhile(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		if err := a.db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		submits := make([]*noted, 3)
		for n := range submits {
			submits[n] = &noted{row: &job.JournalRow{
				Job:         job.Job{ID: job.ID(fmt.Sprint("job-", n)), Generation: 1},
				Idempotency: job.Idempotency{Key: "key", Body: "b"}, Submitting: true,
			}}
		}
		if err := a.note(t.Context(), &notes{submits: submits}, 0); err != nil {
			t.Fatal(err)
		}
		var rows []string
		if err := a.db.Read.Raw("SELECT job_id FROM accepted_jobs").Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 {
			t.Fatalf("%v have rows under one key", rows)
		}
		for n, s := range submits {
			want := job.KeyHolder{ID: job.ID(rows[0]), Submitting: true}
			if string(s.row.ID) == rows[0] {
				want = job.KeyHolder{}
			}
			if s.holder != want {
				t.Errorf("job %d meets %+v, want %+v", n, s.holder, want)
			}
		}
	})
}
