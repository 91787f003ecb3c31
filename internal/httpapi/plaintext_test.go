package httpapi

import (
	"fmt"
	"net/http/httptest"
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
	r.leases.pulses = func([]job.WorkerBeat) []job.WorkerPulse { return []job.WorkerPulse{{Word: job.OK}} }
	for _, c := range [][3]string{
		{"/api/worker/log", `{"logs":[{"lease":"v1.a","lines":[5]}]}`,
			"lines: has an entry that is neither a text nor an object"},
		{"/api/worker/heartbeat", `{"leases":[{"lease":"v1.a","progress":5}]}`, "progress: takes JSON objects only"},
		{"/api/worker/heartbeat", `{"leases":[5]}`, "an entry must be a JSON object"},
		{"/api/worker/log", `{"logs":[5]}`, "an entry must be a JSON object"},
		{"/api/worker/report", `{"reports":[5]}`, "an entry must be a JSON object"},
	} {
		req := httptest.NewRequest("POST", c[0], strings.NewReader(c[1])) // against the description, on purpose
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"detail":"`+c[2]+`"`) {
			t.Errorf("%s %s: %d %s", c[0], c[1], rec.Code, rec.Body)
		}
	}
	for _, c := range [][2]string{{"GET", ""}, {"POST", "/cancel"}, {"POST", "/jobs"}} {
		body := wantProblem(t, r.do(c[0], "/api/flows/x"+c[1], ""), 400, "INVALID_REQUEST", "id")
		if body["detail"] != "id: is not a flow's id" {
			t.Errorf("%s: %v", c, body["detail"])
		}
	}
}
