package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestCancel(t *testing.T) {
	t.Attr("proves", "S1-E5 S1-S4 S4-E2 S2-G9")
	for _, c := range []struct{ method, path string }{{"DELETE", "/admin" + jobKnown}, {"DELETE", "/api" + jobKnown},
		{"POST", "/api" + jobKnown + "/cancel"}} {
		answering := func(word job.Word, err error) *rooms {
			r := newRooms(t)
			r.cancel = func(id job.ID) (job.Word, error) {
				if id != knownID {
					t.Errorf("cancels %s", id)
				}
				return word, err
			}
			return r
		}
		wantJSON(t, answering(job.WasCancelled, nil).do(c.method, c.path, ""), 200,
			`{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"CANCELLED"}`)
		wantJSON(t, answering(job.Cancel, nil).json(c.method, c.path, `{}`), 202,
			`{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"PROCESSING","cancelRequested":true}`)
		body := wantProblem(t, answering("", fmt.Errorf("cancel: %w: it is COMPLETED", job.ErrWrongState)).do(c.method,
			c.path, ""), 409, "INVALID_STATE_TRANSITION")
		if body["detail"] != "the job's state does not allow that: it is COMPLETED" || body["jobId"] != string(knownID) {
			t.Errorf("%v", body)
		}
		wantProblem(t, answering("", job.ErrNotFound).do(c.method, c.path, ""), 404, "JOB_NOT_FOUND")
		wantProblem(t, answering("", job.ErrUnavailable).do(c.method, c.path, ""), 503, "SYSTEM_UNHEALTHY")
		wantProblem(t, answering(job.Late, nil).do(c.method, c.path, ""), 500, "INTERNAL")
	}
}

// A kill, a hasten and a dismissal answer with the state that they leave, and the log of changes hears of each.
func TestOperate(t *testing.T) {
	for path, c := range map[string]struct{ asks, action, status string }{
		"/admin" + jobKnown + "/kill":                 {"kill " + string(knownID) + " no use", "job.kill", "FAILED"},
		"/admin" + jobKnown + "/hasten":               {"hasten " + string(knownID), "job.hasten", "PENDING"},
		"/admin/dead/" + string(knownID) + "/dismiss": {"dismiss " + string(knownID) + " no use", "dead.dismiss", "FAILED"},
	} {
		r := newRooms(t)
		var asked []string
		var answer error
		r.operate = func(what string) error { asked = append(asked, what); return answer }
		wantJSON(t, r.json("POST", path, `{"reason":"no use"}`), 200,
			`{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"`+c.status+`"}`)
		if !slices.Equal(asked, []string{c.asks}) {
			t.Errorf("%s asks for %q, want %q", path, asked, c.asks)
		}
		answer = fmt.Errorf("x: %w", &job.StateError{Status: job.Processing, Reason: "it runs"})
		body := wantProblem(t, r.do("POST", path, ""), 409, "INVALID_STATE_TRANSITION")
		if body["detail"] != "the job is PROCESSING: it runs" || body["jobId"] != string(knownID) {
			t.Errorf("%v", body)
		}
		answer = job.ErrAmbiguous
		body = wantProblem(t, r.do("POST", path, ""), 504, "OUTCOME_UNKNOWN")
		if !strings.Contains(fmt.Sprint(body["detail"]), "Send it again") {
			t.Errorf("%v", body)
		}
		answer = job.ErrNotFound
		wantProblem(t, r.do("POST", path, ""), 404, "JOB_NOT_FOUND")
		answer = job.ErrUnavailable
		wantProblem(t, r.do("POST", path, ""), 503, "SYSTEM_UNHEALTHY")
		asked = nil
		wantProblem(t, r.json("POST", path, `{"reason":"two\nlines"}`), 400, "INVALID_REQUEST", "reason")
		wantProblem(t, r.json("POST", path, `{"why":"x"}`), 400, "INVALID_REQUEST", "why")
		wantProblem(t, r.do("POST", path+"?reason=x", ""), 400, "INVALID_REQUEST", "reason")
		wantProblem(t, r.do("POST", strings.Replace(path, string(knownID), "7", 1), ""), 400, "INVALID_REQUEST", "id")
		if len(asked) > 0 {
			t.Errorf("a bad request asked for %q", asked)
		}
	}
}

func TestRequeue(t *testing.T) {
	t.Attr("proves", "S0-E4 S0-S7 S1-E4 S1-S5")
	for _, path := range []string{jobKnown + "/retry", "/admin" + jobKnown + "/resubmit"} {
		var requests []string
		r := newRooms(t)
		r.requeue = func(id job.ID, requestID string) error {
			if id != knownID {
				t.Errorf("requeues %s", id)
			}
			requests = append(requests, requestID)
			return nil
		}
		rec := r.do("POST", path, "", "X-Trace-Id", "trace-1")
		wantJSON(t, rec, 202, `{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"PENDING","traceId":"trace-1"}`)
		wantHeader(t, rec, "Location", pollKnown)
		r.do("POST", path, "")
		for range 2 {
			r.do("POST", path, "", "Idempotency-Key", "mine")
		}
		r.do("POST", path, "", "Idempotency-Key", "another")
		if len(requests) != 5 || requests[0] == requests[1] || requests[2] != requests[3] || requests[3] == requests[4] ||
			len(requests[0]) != 32 || len(requests[2]) != 32 {
			t.Errorf("%s: requests %q", path, requests)
		}
		wantProblem(t, r.do("POST", path, "", "Idempotency-Key", ""), 400, "INVALID_REQUEST", "Idempotency-Key")

		r.requeue = func(job.ID, string) error {
			return fmt.Errorf("requeue: dial 10.0.0.7: %w", fmt.Errorf("%w: it is running", job.ErrWrongState))
		}
		if body := wantProblem(t, r.do("POST", path, ""), 409,
			"INVALID_STATE_TRANSITION"); body["detail"] != "the job's state does not allow that: it is running" {
			t.Errorf("%v", body)
		}
		r.requeue = func(job.ID, string) error {
			return fmt.Errorf("requeue: dial 10.0.0.7: %w",
				&job.StateError{Status: job.Processing, Reason: "only a FAILED job can be requeued"})
		}
		if body := wantProblem(t, r.do("POST", path, ""), 409,
			"INVALID_STATE_TRANSITION"); body["detail"] != "the job is PROCESSING: only a FAILED job can be requeued" {
			t.Errorf("%v", body)
		}
		r.requeue = func(job.ID, string) error { return job.ErrNotFound }
		wantProblem(t, r.do("POST", path, ""), 404, "JOB_NOT_FOUND")
		r.requeue = func(job.ID, string) error { return job.ErrUnknownTier }
		wantProblem(t, r.do("POST", path, ""), 404, "UNKNOWN_TIER")
	}
}

// A submitter's retry has the limits of a submit: his tiers and types, the tier's share and his quota. An admin's
// retry has no limits.
func TestRequeue_OfOnesOwn(t *testing.T) {
	t.Attr("proves", "A26 A29")
	retry := "/jobs/" + string(knownID) + "/retry"
	r, _ := owned(t, mine)
	r.requeue = func(job.ID, string) error { return nil }
	caller := callers["submit"]
	caller.Key.ID, caller.Key.InFlight = mine, 7
	r.behind(caller)
	if rec := r.do("POST", retry, ""); rec.Code != 202 || len(r.quotas) != 1 || r.quotas[0] != 7 {
		t.Fatal(rec.Code, r.quotas)
	}
	r.requeue = func(job.ID, string) error { return fmt.Errorf("requeue: %w", job.ErrQueueFull) }
	rec := r.do("POST", retry, "")
	wantProblem(t, rec, 503, "QUEUE_FULL")
	if rec.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.requeue = func(job.ID, string) error { return fmt.Errorf("requeue: %w", job.ErrQuota) }
	rec = r.do("POST", retry, "")
	wantProblem(t, rec, 429, "RATE_LIMITED")
	if rec.Header().Get("Retry-After") == "" ||
		!strings.Contains(rec.Body.String(), "reached its quota of 7 jobs") {
		t.Error(rec.Header(), rec.Body)
	}

	r.quotas, r.requeue = nil, func(job.ID, string) error { return nil }
	for name, narrow := range map[string]func(*job.Key){
		"another tier": func(k *job.Key) { k.Tiers = []job.Tier{job.Public} },
		"another type": func(k *job.Key) { k.Types = []string{"PAIR"} },
	} {
		caller := caller
		narrow(&caller.Key)
		r.behind(caller)
		if rec := r.do("POST", retry, ""); rec.Code != 403 || len(r.quotas) != 0 {
			t.Errorf("%s: %d, asked %v", name, rec.Code, r.quotas)
		}
	}
	r.behind(callers["admin"])
	if rec := r.do("POST", retry, ""); rec.Code != 202 || len(r.quotas) != 0 {
		t.Errorf("an administrator's: %d, held to %v", rec.Code, r.quotas)
	}
}

func TestChange_BadInput(t *testing.T) {
	r := newRooms(t)
	called := errors.New("was called")
	r.cancel = func(job.ID) (job.Word, error) { return "", called }
	r.requeue = func(job.ID, string) error { return called }
	for _, c := range []struct{ method, before, after string }{
		{"DELETE", "/admin/jobs/", ""}, {"DELETE", "/api/jobs/", ""}, {"POST", "/api/jobs/", "/cancel"},
		{"POST", "/jobs/", "/retry"}, {"POST", "/admin/jobs/", "/resubmit"},
	} {
		known := c.before + string(knownID) + c.after
		wantProblem(t, r.do(c.method, c.before+"7"+c.after, ""), 400, "INVALID_REQUEST", "id")
		wantProblem(t, r.do(c.method, known+"?force=1", ""), 400, "INVALID_REQUEST", "force")
		wantProblem(t, r.json(c.method, known, `{"force":true}`), 400, "INVALID_REQUEST", "force")
		wantProblem(t, r.json(c.method, known, `[]`), 400, "INVALID_REQUEST")
		wantProblem(t, r.do(c.method, known, `x`, "Content-Type", "text/plain"), 415, "UNSUPPORTED_MEDIA_TYPE")
	}
}
