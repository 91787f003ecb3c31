package archive_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// The pauses are stored, replaced by a later version, and not by an earlier one; each time without an error.
func TestPauses(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		if none, err := a.Pauses(t.Context()); err != nil || none.Version != 0 || none.List != nil {
			t.Errorf("at first %+v, %v", none, err)
		}
		at := time.UnixMilli(1777635117123).UTC()
		one := job.Pauses{Version: 1, List: []job.Pause{{Scope: "all", Since: at}}}
		later := job.Pauses{Version: 3, List: []job.Pause{
			{Scope: "queue:films", Since: at, Until: at.Add(time.Hour), By: "ada", Reason: "a \"migration\" 🙂", Refuse: true},
			{Scope: "tier:PUBLIC", Since: at},
		}}
		none := job.Pauses{Version: 4, List: []job.Pause{}}
		for _, step := range []struct{ keep, want job.Pauses }{
			{one, one}, {one, one}, {later, later}, {one, later}, {none, none}, {later, none},
		} {
			if err := a.KeepPauses(t.Context(), step.keep); err != nil {
				t.Errorf("version %d: %v", step.keep.Version, err)
			}
			got, err := a.Pauses(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}
