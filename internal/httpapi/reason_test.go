package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Every change of a job takes a reason in its body, a DELETE also in its query. A reason that is not one line of
// text is refused before anything is done.
func TestChangesMaySayWhy(t *testing.T) {
	t.Attr("proves", "S3-I16")
	most := strings.Repeat("\u20ac", job.MaxReason)
	for _, c := range []struct{ method, path string }{
		{"DELETE", "/admin" + jobKnown}, {"DELETE", "/api" + jobKnown}, {"POST", "/api" + jobKnown + "/cancel"},
		{"POST", jobKnown + "/retry"},
		{"POST", "/admin" + jobKnown + "/resubmit"}, {"POST", "/admin/dead/requeue"},
	} {
		r := newRooms(t)
		r.cancel = func(job.ID) (job.Word, error) { return job.WasCancelled, nil }
		r.requeue = func(job.ID, string) error { return nil }
		r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 1, 1, nil }
		body := func(reason string) string {
			if strings.Contains(c.path, "dead") {
				return `{"limit":1,"reason":` + reason + `}`
			}
			return `{"reason":` + reason + `}`
		}
		for reason, want := range map[string]string{`"ordered twice"`: "ordered twice", `" a\"b<i> "`: `a"b<i>`, `""`: "",
			`null`: "", `"` + most + `"`: most} {
			r.said = nil
			if rec := r.json(c.method, c.path, body(reason)); rec.Code/100 != 2 ||
				!slices.Equal(r.said, []string{want}) {
				t.Errorf("%s %s %.40s: %d %s, said %.60q", c.method, c.path, reason, rec.Code, rec.Body, r.said)
			}
		}
		r.said = nil
		for _, reason := range []string{`7`, `["x"]`, `"a\nb"`, `"a\u0007"`, `"a\u009b"`, `"` + most + `!"`} {
			wantProblem(t, r.json(c.method, c.path, body(reason)), 400, "INVALID_REQUEST", "reason")
		}
		query := c.path + "?reason=" + url.QueryEscape("ordered twice & paid")
		if c.method == "DELETE" {
			if rec := r.do(c.method, query, ""); rec.Code != 200 ||
				!slices.Equal(r.said, []string{"ordered twice & paid"}) {
				t.Errorf("%s: %d, said %q", query, rec.Code, r.said)
			}
			wantProblem(t, r.do(c.method, c.path+"?reason=a%0Ab", ""), 400, "INVALID_REQUEST", "reason")
			wantProblem(t, r.do(c.method, c.path+"?why=x", ""), 400, "INVALID_REQUEST", "why")
			continue
		}
		wantProblem(t, r.json(c.method, query, body(`"x"`)), 400, "INVALID_REQUEST", "reason")
		if len(r.said) != 0 {
			t.Errorf("%s: refused, and yet asked for %q", c.path, r.said)
		}
	}
}

// The log of changes has the reason. A cancel whose reason cannot be stored is not made.
func TestReasonsAreLogged(t *testing.T) {
	r := newRooms(t)
	r.cancel = func(job.ID) (job.Word, error) { return job.Cancel, nil }
	r.requeue = func(job.ID, string) error { return nil }
	r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 3, 2, nil }
	r.json("POST", "/api"+jobKnown+"/cancel", `{"reason":"ordered twice"}`)
	r.json("POST", jobKnown+"/retry", `{"reason":"the bank is back"}`)
	r.json("POST", jobKnown+"/retry", ``)
	r.json("POST", "/admin/dead/requeue", `{"limit":2,"reason":"all of them"}`)
	want := []string{
		`{"answer":"CANCEL","reason":"ordered twice"}`,
		`{"reason":"the bank is back"}`,
		``,
		`{"matched":3,"requeued":2,"reason":"all of them"}`,
	}
	if got := afters(&r.told); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	r.cancel = func(job.ID) (job.Word, error) {
		return "", fmt.Errorf("cancel: %w: %w", job.ErrNotKept, job.ErrUnavailable)
	}
	body := wantProblem(t, r.json("POST", "/api"+jobKnown+"/cancel", `{"reason":"x"}`), 503, "SYSTEM_UNHEALTHY")
	if detail := fmt.Sprint(body["detail"]); !strings.Contains(detail, "the change was not made") {
		t.Errorf("%v", body)
	}
}

// The detail of a job has the reasons of its cancels and requeues. If SQL does not answer, the rest is still shown.
func TestGetJob_Reasons(t *testing.T) {
	j := at(job.Cancelled, 2)
	j.Generation = 2
	r := keep(t, j)
	detail := func() string { return r.do("GET", jobKnown, "").Body.String() }
	if got := detail(); !strings.Contains(got, `"reasons":[]`) {
		t.Error(got)
	}
	r.reasons = []job.Reason{
		{
			Action:     "requeue",
			Generation: 1,
			At:         aMoment,
			Text:       "the bank is back",
		}, {Action: "cancel", Generation: 2, At: aMoment, Text: "e3rror <b>"},
	}
	want := `"reasons":[{"action":"requeue","generation":1,"at":"2026-05-01T11:31:57.961931Z","reason":"the bank is back"},` +
		`{"action":"cancel","generation":2,"at":"2026-05-01T11:31:57.961931Z","reason":"e3rror <b>"}]`
	if got := detail(); !strings.Contains(got, want) {
		t.Error(got)
	}
	r.reasonless = job.ErrUnavailable
	if got := detail(); !strings.Contains(got, `"reasons":null`) || !strings.Contains(got, `"status":"CANCELLED"`) {
		t.Error(got)
	}
	r.reasonless, r.deps.Redact = nil, map[string][]string{"*": {"*"}, j.Type: {"*"}}
	r.behind(callers["read-only"])
	if got := detail(); strings.Contains(got, "e3rror") || !strings.Contains(got, `"reason":"***"`) {
		t.Error(got)
	}
}

func afters(l *changeLog) (texts []string) {
	for _, c := range l.changes {
		texts = append(texts, string(c.After))
	}
	return texts
}
