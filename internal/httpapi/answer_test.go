package httpapi

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A request does not see the values of the request before, although both use the same visit.
func TestSubmit_LeavesNothingToTheNext(t *testing.T) {
	r := newRooms(t)
	for range 20 {
		if rec := r.post(`{"type":"PAIR","payload":{"A":1},"maxRetries":1,"delaySeconds":5}`); rec.Code != 202 {
			t.Fatal(rec.Code, rec.Body)
		}
		for _, body := range []string{"", "{}"} {
			if rec := r.post(body); rec.Code != 202 || rec.Body.String() != golden {
				t.Fatal(rec.Code, rec.Body)
			}
			if s := r.submitted[len(r.submitted)-1]; s.Type != defaultType || s.Payload != nil || s.MaxRetries != -1 ||
				s.Delay != 0 || !s.RunAt.IsZero() {
				t.Fatalf("submitted %+v", s)
			}
		}
	}
	batch := `[{"type":"PAIR","payload":{"A":1},"maxRetries":1,"delaySeconds":5,"idempotencyKey":"k"},{}]`
	var sent []job.Submission
	r.submitBatch = func(b []job.Submission) ([]job.Accepted, []error) {
		sent = b
		return []job.Accepted{{ID: knownID}, {ID: knownID}}, make([]error, len(b))
	}
	if rec := r.do("POST", "/paid/submit/batch", batch, "Content-Type", "application/json"); rec.Code != 202 ||
		len(sent) != 2 {
		t.Fatal(rec.Code, rec.Body)
	}
	if s := sent[1]; s.Type != defaultType || s.Payload != nil || s.MaxRetries != -1 || s.Delay != 0 ||
		s.Idempotency != (job.Idempotency{}) {
		t.Errorf("submitted %+v", s)
	}
}

// A body at a bound passes and a body beyond it does not, also if the quick count of all braces and colons exceeds
// the bound.
func TestMeasure_Bounds(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2) }
	wide := func(n int) string { return "{" + strings.Repeat(`"a":1,`, n-1) + `"a":1}` }
	for text, fits := range map[string]bool{
		deep(maxDepth): true, deep(maxDepth + 2): false, wide(maxKeys): true, wide(maxKeys + 1): false,
		strings.Repeat(`[]`, maxDepth+1): true, `"` + strings.Repeat("[{:", maxKeys+1) + `"`: true,
	} {
		if err := measure([]byte(text)); (err == nil) != fits {
			t.Errorf("%.40s...: %v", text, err)
		}
	}
}
