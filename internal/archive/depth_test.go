package archive

import (
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Dead letters are counted up to a bound, and no numbered page begins or ends behind it. The list by cursor has
// all of them.
func TestDeadAreCountedToABound(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		fill(t, a, 300) // 150 dead letters
		for _, tc := range []struct {
			f    job.Filter
			most int64
			want int64
		}{
			{job.Filter{}, 1000, 150}, {job.Filter{}, 150, 150}, {job.Filter{}, 100, 100},
			{job.Filter{Cause: job.HandlerError}, 100, 100},
			{job.Filter{Cause: job.HeartbeatStopped}, 100, 0}, {job.Filter{Status: job.Completed}, 100, 0},
		} {
			if n, err := a.countDead(t.Context(), tc.f, tc.most); err != nil || n != tc.want {
				t.Errorf("%+v, at most %d: %d, %v, want %d", tc.f, tc.most, n, err, tc.want)
			}
		}
		for page, want := range []int{40, 40, 20, 0} {
			letters, total, err := a.deadPage(t.Context(), job.Filter{}, page, 40, 100)
			if err != nil || len(letters) != want || total != 100 {
				t.Errorf("page %d: %d letters of %d, %v, want %d", page, len(letters), total, err, want)
			}
		}
		n, cursor := 0, ""
		for more := true; more; more = cursor != "" {
			letters, next, err := a.Dead(t.Context(), job.Filter{}, cursor, 40)
			if err != nil {
				t.Fatal(err)
			}
			n, cursor = n+len(letters), next
		}
		if n != 150 {
			t.Errorf("%d letters by cursor, not 150", n)
		}
	})
}
