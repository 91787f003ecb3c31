package archive_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// A queue is stored, replaced by a later version, and not by an earlier one, and dropped; each time without an error.
func TestQueues(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		films := job.Queue{
			Name: "films", Limit: 7, Types: []string{"TRANSCODE"}, MaxRun: time.Minute, LogsOff: true, Version: 1,
			Schemas: map[string]string{"TRANSCODE": `{"required":["film"]}`},
		}
		later := films
		later.Limit, later.Version = 8, 3
		for _, step := range []struct{ keep, want job.Queue }{
			{films, films}, {films, films}, {later, later}, {films, later},
		} {
			if err := a.KeepQueue(t.Context(), step.keep); err != nil {
				t.Errorf("version %d: %v", step.keep.Version, err)
			}
			got, err := a.Queues(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]job.Queue{step.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		for range 2 {
			if err := a.DropQueue(t.Context(), "films"); err != nil {
				t.Errorf("dropped: %v", err)
			}
		}
		if got, err := a.Queues(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("left are %v, %v", got, err)
		}
	})
}
