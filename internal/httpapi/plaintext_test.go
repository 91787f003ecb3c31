package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// The text of a refusal is whole: its end says what to do.
func TestTexts_AreWhole(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.times.refuse = fmt.Errorf("call: %w: its owner's API key is revoked or has expired; store the schedule with a key "+
		"that lives", job.ErrScheduleState)
	body := wantProblem(t, r.json("POST", "/admin/schedules/n/resume", ""), 409, "INVALID_STATE_TRANSITION")
	if detail, _ := body["detail"].(string); !strings.HasSuffix(detail, "with a key that lives") {
		t.Errorf("the detail is %q", detail)
	}
	if got := told(fmt.Errorf("call: %w: %s", job.ErrPaused, strings.Repeat("x", 5000)), job.ErrPaused); len(got) > 1100 {
		t.Errorf("a text of %d bytes is told", len(got))
	}
}

// A text about a member that is no object names the member, and speaks of no body.
func TestTexts_NameTheMember(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	for _, c := range []struct{ path, body, field, reason string }{
		{"/api/worker/log", `{"logs":[5]}`, "logs", "takes JSON objects only"},
		{"/api/worker/log", `{"logs":[{"lease":"v1.a","lines":[5]}]}`, "logs.lines",
			"has an entry that is neither a text nor an object"},
		{"/api/worker/heartbeat", `{"leases":[{"lease":"v1.a","progress":5}]}`, "leases.progress",
			"takes JSON objects only"},
	} {
		body := wantProblem(t, r.json("POST", c.path, c.body), 400, "INVALID_REQUEST", c.field)
		if body["detail"] != c.field+": "+c.reason {
			t.Errorf("%s %s: %v", c.path, c.body, body["detail"])
		}
	}
	for _, c := range [][2]string{{"GET", ""}, {"POST", "/cancel"}, {"POST", "/jobs"}} {
		body := wantProblem(t, r.do(c[0], "/api/flows/x"+c[1], ""), 400, "INVALID_REQUEST", "id")
		if body["detail"] != "id: is not a flow's id" {
			t.Errorf("%s: %v", c, body["detail"])
		}
	}
}
