package httpapi

import (
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A page of a list is charged its cost after its parameters are read and before a store is called. If the rate does
// not have as much left, the request is refused.
func TestSpendList(t *testing.T) {
	t.Attr("proves", "A29")
	for path, costs := range map[string][]int{"/api/jobs": {180}, "/admin/jobs?limit=1": {180}, "/admin/tiers": nil} {
		t.Run(path, func(t *testing.T) {
			r, listed := newRooms(t), 0
			r.list = func(job.Filter, string, int) ([]job.Job, string, error) {
				listed++
				return nil, "", nil
			}
			d := r.behind(callers["admin"])
			if rec := r.do("GET", path, ""); rec.Code != 200 || !slices.Equal(d.costly, costs) || d.spent != 1 {
				t.Errorf("%d %s: it spends %d and %v", rec.Code, rec.Body, d.spent, d.costly)
			}
			if costs == nil {
				return
			}
			d.costlyLeft = job.Allowance{Limited: true, Rate: 10, Burst: 20, Remaining: 3, RetryIn: 700 * time.Millisecond}
			rec := r.do("GET", path, "")
			wantProblem(t, rec, 429, "RATE_LIMITED")
			wantHeader(t, rec, "Retry-After", "1")
			if listed != 1 {
				t.Errorf("listed %d times", listed)
			}
		})
	}
	r := newRooms(t)
	d := r.behind(callers["admin"])
	if rec := r.do("GET", "/api/jobs?limit=0", ""); rec.Code != 400 || d.costly != nil {
		t.Errorf("a wrong parameter: %d, it spends %v", rec.Code, d.costly)
	}
}
