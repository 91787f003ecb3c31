package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A change whose answer was lost gets a 504 and not a 503, because a 503 promises that nothing was changed. The
// answer says what to do, and has no internal details.
func TestChange_InDoubt(t *testing.T) {
	lost := fmt.Errorf("hunter2: %w", job.ErrAmbiguous)
	for name, c := range map[string]struct {
		method, path, body string
		aJob               bool
		says               string
	}{
		"DELETE cancels":       {"DELETE", "/admin" + jobKnown, "", true, "cancel it again"},
		"DELETE cancels, /api": {"DELETE", "/api" + jobKnown, "", true, "cancel it again"},
		"POST cancels":         {"POST", "/api" + jobKnown + "/cancel", "", true, "cancel it again"},
		"retry":                {"POST", jobKnown + "/retry", "", true, "requeues it once"},
		"resubmit":             {"POST", "/admin" + jobKnown + "/resubmit", "", true, "requeues it once"},
		"plan":                 {"PUT", "/admin/tiers/GOLD", goldPlan, false, "look at the tier"},
		"bulk requeue":         {"POST", "/admin/dead/requeue", `{"limit":5}`, false, "look which are left"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := allFailing(t, lost).json(c.method, c.path, c.body)
			body := wantProblem(t, rec, 504, "OUTCOME_UNKNOWN")
			detail, _ := body["detail"].(string)
			if !strings.Contains(detail, c.says) || strings.Contains(rec.Body.String(), "hunter2") ||
				rec.Header().Get("Retry-After") != "" {
				t.Errorf("%v, %v", body, rec.Header())
			}
			location, id := "", any(nil)
			if c.aJob {
				location, id = pollKnown, string(knownID)
			}
			if body["jobId"] != id || rec.Header().Get("Location") != location {
				t.Errorf("jobId %v, Location %q", body["jobId"], rec.Header().Get("Location"))
			}
			// A change that was certainly not made gets a 503.
			wantProblem(t, allFailing(t, job.ErrUnavailable).json(c.method, c.path, c.body), 503, "SYSTEM_UNHEALTHY")
			// An error that is both may have made the change.
			both := errors.Join(job.ErrUnavailable, lost)
			wantProblem(t, allFailing(t, both).json(c.method, c.path, c.body), 504, "OUTCOME_UNKNOWN")
		})
	}
}

// A read whose answer was lost gets a 503: it changed nothing.
func TestRead_TheAnswerWasLost(t *testing.T) {
	for _, path := range []string{
		jobKnown, "/api" + jobKnown, pollKnown, "/api" + jobKnown + "/why", jobKnown + "/artifact", "/admin/jobs",
		"/admin/dead", "/jobs/dead", "/api/stats",
	} {
		wantProblem(t, allFailing(t, job.ErrAmbiguous).do("GET", path, ""), 503, "SYSTEM_UNHEALTHY")
	}
	wantProblem(t, allFailing(t, job.ErrAmbiguous).json("POST", "/admin/dead/requeue", `{"limit":5,"dryRun":true}`), 503,
		"SYSTEM_UNHEALTHY")
}

// A change that was cut off by the handler's own deadline is in doubt as well.
func TestChange_InDoubtAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t)
		r.cancel = func(job.ID) (job.Word, error) {
			<-time.After(operation + time.Second)
			return "", fmt.Errorf("cancel: %w: %w", job.ErrAmbiguous, context.DeadlineExceeded)
		}
		wantProblem(t, r.do("DELETE", "/admin"+jobKnown, ""), 504, "OUTCOME_UNKNOWN")
	})
}

// A bulk requeue that did half of its work gets a 200 with the numbers. For a caller who has left, inDoubt returns
// the error as it is.
func TestChange_InDoubtAndYetAnswered(t *testing.T) {
	r := newRooms(t)
	r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 7, 3, job.ErrAmbiguous }
	wantJSON(t, r.json("POST", "/admin/dead/requeue", `{"limit":10}`), 200, `{"matched":7,"requeued":3}`)
	left := fmt.Errorf("promise requeue: %w: %w", job.ErrAmbiguous, context.Canceled)
	if err := inDoubt(left, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
