package httpapi

import (
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// An API key may have a bounded number of Idempotency-Keys at once. A submit with an Idempotency-Key is charged one
// of them after all other checks. If none is left, the submit is refused and nothing is submitted.
func TestSpendIdempotency_OfSubmits(t *testing.T) {
	t.Attr("proves", "A29")
	key := []string{"Idempotency-Key", "order-7"}
	for name, c := range map[string]struct {
		path, body string
		header     []string
		spends     []int
	}{
		"with a key":     {"/public/submit", "{}", key, []int{1}},
		"POST /jobs":     {"/jobs", `{"type":"SIMULATION","tier":"PUBLIC"}`, key, []int{1}},
		"POST /api/jobs": {"/api/jobs", `{"jobType":"SIMULATION","tier":"PUBLIC"}`, key, []int{1}},
		"without one":    {"/public/submit", "{}", nil, nil},
		"a batch": {
			"/public/submit/batch", `[{"idempotencyKey":"a"},{},{"idempotencyKey":"b"}]`, nil, []int{2},
		},
		"a batch without one": {"/public/submit/batch", `[{},{}]`, nil, nil},
		"a batch, one is wrong": {
			"/public/submit/batch", `[{"idempotencyKey":"a"},{"idempotencyKey":"b","type":"NONE"}]`, nil, []int{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			d := r.behind(callers["submit"])
			if rec := r.json("POST", c.path, c.body, c.header...); rec.Code != 202 || !slices.Equal(d.keyed, c.spends) {
				t.Errorf("%d %s: it spends %v, not %v", rec.Code, rec.Body, d.keyed, c.spends)
			}
			r.submitted = nil
			d.keysLeft = job.Allowance{Limited: true, Rate: 1, Burst: 5, RetryIn: 7 * time.Second}
			rec := r.json("POST", c.path, c.body, c.header...)
			if c.spends == nil {
				if rec.Code != 202 {
					t.Errorf("where none is left: %d %s", rec.Code, rec.Body)
				}
				return
			}
			wantProblem(t, rec, 429, "RATE_LIMITED")
			wantHeader(t, rec, "Retry-After", "7")
			if r.submitted != nil {
				t.Errorf("submitted %v", r.submitted)
			}
			d.keysLeft.Burst = 0 // fewer than the submit needs: it would never pass
			wantProblem(t, r.json("POST", c.path, c.body, c.header...), 413, "PAYLOAD_TOO_LARGE")
		})
	}
	t.Run("a wrong body", func(t *testing.T) {
		r := newRooms(t)
		d := r.behind(callers["submit"])
		if rec := r.json("POST", "/public/submit", `{"type":"NONE"}`, key...); rec.Code != 422 || d.keyed != nil {
			t.Errorf("%d %s: it spends %v", rec.Code, rec.Body, d.keyed)
		}
	})
}
