package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Each job of a new batch may do what its caller's key may: a job in another tier or of another type refuses the whole
// batch, and a caller without a key brings no jobs.
func TestBatches_JobsOfAKey(t *testing.T) {
	t.Parallel()
	const pair = `{"type":"PAIR","payload":{"A":1}}`
	r := newRooms(t)
	r.behind(publicPair)
	post := func(jobs string) string { return `{"name":"a","tier":"PUBLIC","jobs":[` + jobs + `]}` }
	for _, other := range []string{`{"type":"PAIR","payload":{"A":1},"tier":"PAID"}`, `{"type":"SIMULATION"}`} {
		says := wantProblem(t, r.json("POST", "/api/batches", post(pair+","+other)), 403, "FORBIDDEN")
		if detail, _ := says["detail"].(string); !strings.HasPrefix(detail, "jobs.1: ") {
			t.Errorf("%s: %v", other, says)
		}
	}
	if r.batches.made.Name != "" {
		t.Errorf("a refused batch was made: %+v", r.batches.made)
	}
	if rec := r.json("POST", "/api/batches", post(pair)); rec.Code != http.StatusCreated || len(r.batches.jobs) != 1 ||
		r.batches.jobs[0].Owner != mine || r.batches.jobs[0].Quota != 5 {
		t.Errorf("%d %s, %+v", rec.Code, rec.Body, r.batches.jobs)
	}
	r.batches.err = job.ErrQuota
	rec := r.json("POST", "/api/batches", post(pair))
	wantProblem(t, rec, 429, "RATE_LIMITED")
	if !strings.Contains(rec.Body.String(), "its quota of 5 jobs") || rec.Header().Get("Retry-After") == "" {
		t.Errorf("%s, %v", rec.Body, rec.Header())
	}
	stranger := newRooms(t)
	stranger.behind(callers["anonymous"])
	wantProblem(t, stranger.json("POST", "/api/batches", post("{}")), 401, "UNAUTHORIZED")
	if stranger.batches.made.Name != "" {
		t.Error("a caller without a key made a batch")
	}
}

// Each job that comes with a batch counts as a request for the rate of the key, and more than a burst are refused.
func TestBatches_JobsCountForTheRate(t *testing.T) {
	t.Parallel()
	r, door := atTurnstile(t, job.Allowance{Limited: true, Rate: 1, Burst: 5, Remaining: 2})
	if rec := r.json("POST", "/api/batches", `{"name":"a","jobs":[{},{},{}]}`); rec.Code != http.StatusCreated ||
		!slices.Equal(door.spent, []int{1, 2}) {
		t.Errorf("%d %s, spent %v", rec.Code, rec.Body, door.spent)
	}
}
