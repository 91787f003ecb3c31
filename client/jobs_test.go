package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

// answers serves one text for a pattern and records the requests.
func answers(s *fake.Server, pattern string, status int, text string, headers ...string) *[]string {
	var asked []string
	s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.URL.RawQuery+" "+string(body)))
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	return &asked
}

const aJob = `{"jobId":"019de340-01fe-7a58-be69-ffffffffffff","id":"019de340-01fe-7a58-be69-ffffffffffff",` +
	`"type":"REPORT","tier":"PAID","status":"FAILED","retryCount":1,` +
	`"attempts":2,"maxRetries":5,"runAt":null,"lastError":"boom","createdAt":"2026-05-01T11:31:57.961931Z",` +
	`"updatedAt":"2026-05-01T11:31:59Z","firstTriedAt":null,` +
	`"completedAt":null,"failureCause":"HANDLER_ERROR","generation":1,"traceId":null,"cancelRequested":false,` +
	`"result":null,` +
	`"history":[{"attempt":1,"worker":"w-1","startedAt":"2026-05-01T11:31:57Z","finishedAt":null,"outcome":"FAILURE",` +
	`"cause":"HANDLER_ERROR","error":"boom"}],"later":"field"}`

func TestJob(t *testing.T) {
	s, c := newServer(t)
	answers(s, "GET /jobs/"+unknownID, 200, aJob)
	j, err := c.Job(soon(t), unknownID)
	if err != nil || j.JobID != unknownID || j.Status != Failed || j.Attempts != 2 || j.LastError != "boom" ||
		j.Result != nil || !j.RunAt.IsZero() || string(j.Raw) != aJob {
		t.Errorf("%+v, %v", j, err)
	}
	if h := j.History; len(h) != 1 || h[0].Worker != "w-1" || h[0].Outcome != "FAILURE" || !h[0].FinishedAt.IsZero() {
		t.Errorf("%+v", h)
	}
	if err := j.Decode(&struct{}{}); err == nil {
		t.Error("a result out of nothing")
	}
}

func TestLists(t *testing.T) {
	s, c := newServer(t)
	pages := []string{`{"items":[` + aJob + `,` + aJob + `],"next":"b"}`, `{"items":[],"next":"c"}`,
		`{"items":[` + aJob + `],"next":null}`}
	var asked []string
	page := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, pages[len(asked)%3])
		asked = append(asked, r.URL.Path+"?"+r.URL.RawQuery)
	}
	s.Handle("GET /api/jobs", page)
	s.Handle("GET /admin/dead", page)
	at := time.Date(2026, 5, 1, 13, 0, 0, 0, time.FixedZone("", 7200))
	n := 0
	for j, err := range c.AllJobs(soon(t),
		Filter{Status: Failed, Tier: Paid, Type: "REPORT", Queue: "films", Cause: "HANDLER_ERROR", TraceID: "t.1",
			Limit: 2}) {
		if n++; err != nil || j.JobID != unknownID {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	for _, err := range c.AllDead(soon(t), Filter{From: at, To: at}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range c.AllDead(soon(t), Filter{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
		break
	}
	want := []string{
		"/api/jobs?cause=HANDLER_ERROR&limit=2&queue=films&status=FAILED&tier=PAID&traceId=t.1&type=REPORT",
		"/api/jobs?cause=HANDLER_ERROR&cursor=b&limit=2&queue=films&status=FAILED&tier=PAID&traceId=t.1&type=REPORT",
		"/api/jobs?cause=HANDLER_ERROR&cursor=c&limit=2&queue=films&status=FAILED&tier=PAID&traceId=t.1&type=REPORT",
		"/admin/dead?from=2026-05-01T11%3A00%3A00Z&to=2026-05-01T11%3A00%3A00Z",
		"/admin/dead?cursor=b&from=2026-05-01T11%3A00%3A00Z&to=2026-05-01T11%3A00%3A00Z",
		"/admin/dead?cursor=c&from=2026-05-01T11%3A00%3A00Z&to=2026-05-01T11%3A00%3A00Z", "/admin/dead?",
	}
	if fmt.Sprint(asked) != fmt.Sprint(want) || n != 7 {
		t.Errorf("%d items, asked\n%s", n, strings.Join(asked, "\n"))
	}
	still := `{"items":[],"next":"same"}`
	pages = []string{still, still, still}
	asked, n = nil, 0
	for _, err := range c.AllJobs(soon(t), Filter{}) {
		if n++; err == nil {
			t.Error("an item out of nothing")
		}
	}
	if n != 1 || len(asked) != 2 {
		t.Errorf("a cursor that stands still: %d errors after %d requests", n, len(asked))
	}
}

func TestCancel(t *testing.T) {
	s, c := newServer(t)
	waiting, running, ended := submitted(t, c), submitted(t, c), submitted(t, c)
	s.Move(running, "PROCESSING", "", "", "")
	s.Move(ended, "COMPLETED", "", "", "")
	if got, err := c.Cancel(soon(t), waiting); err != nil || got.Status != Cancelled || got.Requested {
		t.Errorf("waiting: %+v, %v", got, err)
	}
	if got, err := c.Cancel(soon(t), running); err != nil || got.Status != Processing || !got.Requested {
		t.Errorf("running: %+v, %v", got, err)
	}
	if _, err := c.Cancel(soon(t), ended); !errors.Is(err, ErrConflict) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("ended: %v", err)
	}
	if _, err := c.Cancel(soon(t), unknownID); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	// The first answer is lost, and the second try finds the job ended: by the first try, or by itself.
	for status, cancelled := range map[string]bool{"PENDING": true, "PROCESSING": false} {
		id := submitted(t, c)
		s.Move(id, status, "", "", "")
		first := len(s.Seen()) + 1
		s.Faults(func(n int, _ *http.Request) fake.Fault {
			if n == first+1 { // the second try is refused
				return fake.Fault{Status: 409, Code: "INVALID_STATE_TRANSITION"}
			}
			return fake.Fault{DropAfter: n == first}
		})
		got, err := c.Cancel(soon(t), id)
		if cancelled && (err != nil || got.Status != Cancelled || got.JobID != id) ||
			!cancelled && !errors.Is(err, ErrConflict) {
			t.Errorf("a lost answer about a %s job: %+v, %v", status, got, err)
		}
	}
}

// Kill, Hasten and Dismiss send the reason, and report a refusal as ErrConflict.
func TestOperate(t *testing.T) {
	for path, act := range map[string]func(c *Client) error{
		"/admin/jobs/" + unknownID + "/kill":    func(c *Client) error { return c.Kill(soon(t), unknownID, "no use") },
		"/admin/jobs/" + unknownID + "/hasten":  func(c *Client) error { return c.Hasten(soon(t), unknownID) },
		"/admin/dead/" + unknownID + "/dismiss": func(c *Client) error { return c.Dismiss(soon(t), unknownID, "no use") },
	} {
		s, c := newServer(t)
		asked := answers(s, "POST "+path, 200, `{"jobId":"`+unknownID+`","status":"FAILED"}`)
		if err := act(c); err != nil || len(*asked) != 1 ||
			strings.Contains(fmt.Sprint(*asked), `{"reason":"no use"}`) == strings.HasSuffix(path, "hasten") {
			t.Errorf("%s: %v, %v", path, err, *asked)
		}
		s, c = newServer(t)
		answers(s, "POST "+path, 409, `{"status":409,"errorCode":"INVALID_STATE_TRANSITION","detail":"it runs"}`)
		if err := act(c); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestRequeue(t *testing.T) {
	s, c := newServer(t)
	var keys []string
	s.Handle("POST /jobs/"+unknownID+"/retry", func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		fake.JSON(w, 202, map[string]any{"jobId": unknownID, "status": "PENDING"})
	})
	for name, lost := range map[string]fake.Fault{"lost": {DropAfter: true},
		"in doubt": {StatusDone: 504, Code: "OUTCOME_UNKNOWN"}} {
		keys = nil
		s.Faults(firstOnly(len(s.Seen())+1, lost))
		if err := c.Requeue(soon(t), unknownID); err != nil || len(keys) != 2 || keys[0] != keys[1] || len(keys[0]) < 26 {
			t.Errorf("%s: %v, keys %q", name, err, keys)
		}
	}
	s.Faults(firstOnly(99, fake.Fault{DropAfter: true}))
	if e, ok := errors.AsType[*Error](c.Requeue(soon(t), unknownID)); !ok || !e.Unknown || e.JobID != unknownID {
		t.Errorf("lost each time: %+v", e)
	}
}

func TestDeadLetters(t *testing.T) {
	s, c := newServer(t)
	asked := answers(s, "POST /admin/dead/requeue", 200, `{"matched":7,"requeued":5}`)
	at := time.Date(2026, 5, 1, 11, 0, 0, 0, time.UTC)
	got, err := c.RequeueDead(soon(t),
		Filter{Tier: Paid, Cause: "HANDLER_ERROR", Type: "REPORT", From: at.Add(-time.Hour), To: at, Status: Failed}, 5, true)
	want := `[{"tier":"PAID","cause":"HANDLER_ERROR","type":"REPORT","after":"2026-05-01T10:00:00Z",` +
		`"before":"2026-05-01T11:00:00Z","limit":5,"dryRun":true}]`
	if err != nil || got != (Requeued{7, 5}) || fmt.Sprint(*asked) != want {
		t.Errorf("%+v, %v, asked %s", got, err, *asked)
	}
	// A requeue with a lost answer may have happened, so the client does not repeat it. It repeats a refused one, and
	// always a dry run.
	for name, tc := range map[string]struct {
		fault fake.Fault
		dry   bool
		again bool
	}{
		"lost":      {fake.Fault{DropAfter: true}, false, false},
		"lost, dry": {fake.Fault{DropAfter: true}, true, true},
		"refused":   {fake.Fault{Status: 503, Code: "SYSTEM_UNHEALTHY"}, false, true},
	} {
		first := len(s.Seen())
		s.Faults(firstOnly(first+1, tc.fault))
		_, err := c.RequeueDead(soon(t), Filter{}, 5, tc.dry)
		if n := len(s.Seen()) - first; (n == 2) != tc.again || (err == nil) != tc.again ||
			!tc.again && !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: %v after %d requests", name, err, n)
		}
	}
	for name, err := range map[string]error{
		"completed":    func() error { _, err := c.RequeueDead(soon(t), Filter{Status: Completed}, 5, false); return err }(),
		"of a trace":   func() error { _, err := c.RequeueDead(soon(t), Filter{TraceID: "t.1"}, 5, false); return err }(),
		"a list of it": func() error { _, err := c.Dead(soon(t), Filter{Status: Completed}, ""); return err }(),
		"jobs by time": func() error { _, err := c.Jobs(soon(t), Filter{From: at}, ""); return err }(),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeadExport(t *testing.T) {
	s, c := newServer(t)
	asked := answers(s, "GET /admin/dead/export", 200, "{\"jobId\":\"a\"}\n{\"jobId\":\"b\"}\n", "Content-Type",
		"application/x-ndjson")
	body, err := c.DeadExport(soon(t), Filter{Tier: Paid})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); err != nil || strings.Count(string(text), "\n") != 2 || (*asked)[0] != "tier=PAID" {
		t.Errorf("%s, %v, asked %s", text, err, *asked)
	}
	s.Faults(firstOnly(99, fake.Fault{CutAnswer: true}))
	half, err := c.DeadExport(soon(t), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if text, err := io.ReadAll(half); err == nil {
		t.Errorf("half an export looks whole: %s", text)
	}
}

func TestArtifact(t *testing.T) {
	s, c := newServer(t)
	path := "GET /jobs/" + unknownID + "/artifact"
	answers(s, path, 200, "%PDF-1.7", "Content-Type", "application/pdf", "Content-Disposition",
		`attachment; filename="r_port.pdf"; filename*=UTF-8''r%C3%A9port.pdf`)
	a, err := c.Artifact(soon(t), unknownID)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if text, err := io.ReadAll(a); err != nil || string(text) != "%PDF-1.7" || a.Name != "réport.pdf" ||
		a.ContentType != "application/pdf" || a.Size != 8 {
		t.Errorf("%s, %v, %+v", text, err, a)
	}
	if _, err := c.Artifact(soon(t), submitted(t, c)); !errors.Is(err, ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
	for name, want := range map[string]string{
		"a.pdf": "a.pdf", "../../etc/passwd": "passwd", `C:\boot.ini`: "boot.ini", "..": "otherwise", "": "otherwise",
		". .": "otherwise", "a/": "a",
		"a\nb\x7f:c": "a_b__c", "\xff.pdf": "_.pdf", "/": "otherwise",
	} {
		if got := fileName(name, "otherwise"); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// The reason of a change is sent in its body and is read back: the job's reasons, and an attempt's reason for
// "later".
func TestReasons(t *testing.T) {
	s, c := newServer(t)
	cancels := answers(s, "POST /api/jobs/"+unknownID+"/cancel", 200, `{"jobId":"`+unknownID+`","status":"CANCELLED"}`)
	retries := answers(s, "POST /jobs/"+unknownID+"/retry", 202, `{"jobId":"`+unknownID+`","status":"PENDING"}`)
	bulks := answers(s, "POST /admin/dead/requeue", 200, `{"matched":1,"requeued":1}`)
	for _, reason := range []string{`the "bank" is back`, ""} {
		_, err1 := c.CancelBecause(soon(t), unknownID, reason)
		err2 := c.RequeueBecause(soon(t), unknownID, reason)
		_, err3 := c.RequeueDeadBecause(soon(t), Filter{}, 1, false, reason)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
	}
	const said = `{"reason":"the \"bank\" is back"}`
	if (*cancels)[0] != said || (*retries)[0] != said || !strings.Contains((*bulks)[0], said[1:]) {
		t.Errorf("asked %q, %q, %q", *cancels, *retries, *bulks)
	}
	if strings.Contains((*cancels)[1]+(*retries)[1]+(*bulks)[1], "reason") {
		t.Errorf("without one: %q, %q, %q", (*cancels)[1], (*retries)[1], (*bulks)[1])
	}
	answers(
		s,
		"GET /jobs/"+unknownID,
		200,
		`{"jobId":"`+unknownID+`","note":"rejected by 1 of 2","reasons":[{"action":"cancel","generation":2,`+
			`"at":"2026-05-01T11:31:57Z",`+
			`"reason":"ordered twice"}],"history":[{"attempt":1,"generation":2,"outcome":"LATER","reason":"b says SUBMITTED",`+
			`"until":"2026-05-01T11:31:59Z"}]}`,
	)
	j, err := c.Job(soon(t), unknownID)
	if err != nil || j.Note != "rejected by 1 of 2" || len(j.Reasons) != 1 || j.Reasons[0].Reason != "ordered twice" ||
		j.Reasons[0].Generation != 2 {
		t.Errorf("%+v, %v", j, err)
	}
	if h := j.History; len(h) != 1 || h[0].Generation != 2 || h[0].Reason != "b says SUBMITTED" || h[0].Until.IsZero() {
		t.Errorf("%+v", h)
	}
}
