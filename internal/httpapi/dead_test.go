package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

func letter(payload string) job.DeadLetter {
	j := done()
	j.Status, j.Result, j.Cause, j.LastError = job.Failed, nil, job.MaxTimeExceeded, "too slow"
	if j.Payload = nil; payload != "" {
		j.Payload = []byte(payload)
	}
	j.CallbackURL = "https://x/"
	return job.DeadLetter{Job: j}
}

func TestDeadPage(t *testing.T) {
	t.Attr("proves", "S0-E3")
	r := newRooms(t)
	for range 45 {
		r.letters = append(r.letters, letter(""))
	}
	for query, want := range map[string][4]int{
		"?page=0&size=20": {20, 0, 20, 45}, "": {20, 0, 20, 45}, "?page=2": {5, 2, 20, 45}, "?size=100": {45, 0, 100, 45},
		"?page=7&size=10": {0, 7, 10, 45},
	} {
		var body struct {
			Items             []map[string]any
			Page, Size, Total int
		}
		rec := r.do("GET", "/jobs/dead"+query, "")
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != 200 {
			t.Fatalf("%s: %d %s", query, rec.Code, rec.Body)
		}
		if got := [4]int{len(body.Items), body.Page, body.Size, body.Total}; got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
		for _, one := range body.Items {
			if one["jobId"] != string(knownID) || one["status"] != "FAILED" || one["failureCause"] != "MAX_TIME_EXCEEDED" ||
				one["lastError"] != "too slow" {
				t.Fatalf("%v", one)
			}
		}
	}
	for query, field := range map[string]string{
		"?page=-1": "page", "?page=1e9": "page", "?page=10001": "page", "?size=0": "size", "?size=101": "size",
		"?size=": "size", "?page=0&page=1": "page", "?limit=1": "limit",
	} {
		wantProblem(t, r.do("GET", "/jobs/dead"+query, ""), 400, "INVALID_REQUEST", field)
	}
}

func TestDead(t *testing.T) {
	t.Attr("proves", "S2-G9")
	r := newRooms(t)
	want := job.Filter{
		Tier:    job.Paid,
		Cause:   job.HandlerError,
		Type:    "A",
		TraceID: "trace-1",
		From:    aMoment.Truncate(time.Second),
		To:      aMoment.Truncate(time.Second).Add(time.Hour),
	}
	r.dead = func(f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error) {
		if !reflect.DeepEqual(f, want) || cursor != "c1" || limit != 50 {
			t.Errorf("%+v %q %d", f, cursor, limit)
		}
		d := letter("")
		d.RequestedAt = aMoment
		return []job.DeadLetter{d}, "c2", nil
	}
	rec := r.do(
		"GET",
		"/admin/dead?tier=PAID&cause=HANDLER_ERROR&type=A&traceId=trace-1&from=2026-05-01T11:31:57Z"+
			"&to=2026-05-01T14:31:57+02:00&cursor=c1&limit=50",
		"",
	)
	if s := rec.Body.String(); rec.Code != 200 ||
		!strings.Contains(s, `"requeueRequestedAt":"2026-05-01T11:31:57.961931Z","requeuedAt":null`) ||
		!strings.Contains(s, `"next":"c2"`) ||
		strings.Contains(s, "payload") {
		t.Errorf("%d %s", rec.Code, s)
	}
	r.dead = func(job.Filter, string, int) ([]job.DeadLetter, string, error) {
		return nil, "", fmt.Errorf("dead: %w", job.ErrBadCursor)
	}
	wantProblem(t, r.do("GET", "/admin/dead?cursor=tampered", ""), 400, "INVALID_REQUEST", "cursor")
	for query, field := range map[string]string{"?status=FAILED": "status", "?from=yesterday": "from",
		"?to=2026-13-01T00:00:00Z": "to", "?limit=101": "limit", "?traceId=%00": "traceId"} {
		wantProblem(t, r.do("GET", "/admin/dead"+query, ""), 400, "INVALID_REQUEST", field)
	}
}

// An export has one line per dead letter, with all that is needed to submit the job again. Line breaks in a payload
// do not break the line.
func TestDeadExport(t *testing.T) {
	r := newRooms(t)
	r.letters = []job.DeadLetter{letter("{\n  \"a\": \"b\\nc\"\n}"), letter("")}
	rec := r.do("GET", "/admin/dead/export?tier=PAID", "")
	wantHeader(t, rec, "Content-Type", "application/x-ndjson")
	wantHeader(t, rec, "Content-Disposition", `attachment; filename="dead-letters.ndjson"`)
	lines := strings.Split(strings.TrimSuffix(rec.Body.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), rec.Body)
	}
	for i, want := range []any{map[string]any{"a": "b\nc"}, nil} {
		var one map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &one); err != nil || !reflect.DeepEqual(one["payload"], want) ||
			one["callbackUrl"] != "https://x/" || one["jobId"] != string(knownID) {
			t.Errorf("%v %s", err, lines[i])
		}
	}
	if rec := newRooms(t).do("GET", "/admin/dead/export", ""); rec.Code != 200 || rec.Body.Len() != 0 ||
		rec.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("an empty one: %d %s", rec.Code, rec.Body)
	}
	wantProblem(t, r.do("GET", "/admin/dead/export?cursor=x", ""), 400, "INVALID_REQUEST", "cursor")
	r.letters, r.eachDead = nil, job.ErrUnavailable
	wantProblem(t, r.do("GET", "/admin/dead/export", ""), 503, "SYSTEM_UNHEALTHY")
}

// An export that fails half-way breaks the connection off, so that it does not look complete.
func TestDeadExport_BrokenOff(t *testing.T) {
	r := newRooms(t)
	r.letters, r.eachDead = []job.DeadLetter{letter("")}, errors.New("SQL went away: hunter2")
	s := serve(t, r)
	res, err := http.Get("http://" + s.Addr() + "/admin/dead/export")
	if err == nil {
		defer res.Body.Close()
		var body []byte
		body, err = io.ReadAll(res.Body)
		if strings.Contains(string(body), "hunter2") {
			t.Errorf("%s", body)
		}
	}
	if err == nil {
		t.Error("it looks whole")
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "hunter2") {
		t.Errorf("log: %s", &r.log)
	}
}

func TestRequeueDead(t *testing.T) {
	t.Attr("proves", "S2-G9")
	for body, want := range map[string]struct {
		filter job.Filter
		limit  int
		dry    bool
	}{
		`{"limit":10000}`: {job.Filter{}, 10000, false},
		`{"tier":"paid","cause":"HANDLER_ERROR","type":"A","before":"2026-05-01T11:31:57Z","limit":1,"dryRun":true}`: {
			job.Filter{Tier: job.Paid, Cause: job.HandlerError, Type: "A", To: aMoment.Truncate(time.Second)}, 1, true,
		},
		`{"after":"2026-05-01T11:31:57Z","before":null,"limit":7}`: {job.Filter{From: aMoment.Truncate(time.Second)}, 7,
			false},
		`{"tier":null,"limit":5,"dryRun":false}`: {job.Filter{}, 5, false},
	} {
		r := newRooms(t)
		r.requeueDead = func(f job.Filter, limit int, dryRun bool) (int, int, error) {
			if !reflect.DeepEqual(f, want.filter) || limit != want.limit || dryRun != want.dry {
				t.Errorf("%s: %+v %d %t", body, f, limit, dryRun)
			}
			return 7, 3, nil
		}
		wantJSON(t, r.json("POST", "/admin/dead/requeue", body), 200, `{"matched":7,"requeued":3}`)
	}
}

func TestRequeueDead_BadInput(t *testing.T) {
	t.Attr("proves", "A21")
	for body, field := range map[string]string{
		``: "limit", `{}`: "limit", `{"limit":0}`: "limit", `{"limit":10001}`: "limit", `{"limit":1e3}`: "limit",
		`{"limit":"5"}`: "limit", `{"limit":1.5}`: "limit",
		`{"limit":5,"tier":"Paid"}`: "tier", `{"limit":5,"tier":7}`: "tier", `{"limit":5,"cause":"x"}`: "cause",
		`{"limit":5,"type":"a b"}`:    "type",
		`{"limit":5,"before":"soon"}`: "before", `{"limit":5,"after":"2026-05-01"}`: "after",
		`{"limit":5,"after":7}`: "after", `{"limit":5,"dryRun":"yes"}`: "dryRun", `{"limit":5,"status":"FAILED"}`: "status",
		`{"limit":5,"limit":5}`: "limit",
	} {
		r := newRooms(t)
		r.requeueDead = func(job.Filter, int, bool) (int, int, error) {
			t.Errorf("%s: called", body)
			return 0, 0, nil
		}
		wantProblem(t, r.json("POST", "/admin/dead/requeue", body), 400, "INVALID_REQUEST", field)
	}
}

// If the stores go away during a bulk requeue, the answer has the number of jobs requeued before.
func TestRequeueDead_HalfWay(t *testing.T) {
	r := newRooms(t)
	r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 7, 3, job.ErrUnavailable }
	wantJSON(t, r.json("POST", "/admin/dead/requeue", `{"limit":10}`), 200, `{"matched":7,"requeued":3}`)
	r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 7, 0, job.ErrUnavailable }
	wantProblem(t, r.json("POST", "/admin/dead/requeue", `{"limit":10}`), 503, "SYSTEM_UNHEALTHY")
}

// If a store does not answer within the deadline, the answer is a 503.
func TestOperations_HaveADeadline(t *testing.T) {
	r := newRooms(t)
	a := &api{Deps: r.deps.withDefaults()}
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, _ := gin.CreateTestContext(w)
		c.Request = req
		w.Header().Set(traceHeader, "trace-1")
		a.handle(within(time.Nanosecond, func(c *gin.Context) error {
			<-c.Request.Context().Done()
			return fmt.Errorf("find: %w", c.Request.Context().Err())
		}))(c)
	})
	wantProblem(t, r.do("GET", "/", ""), 503, "SYSTEM_UNHEALTHY")
}
