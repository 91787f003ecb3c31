package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const storedQueue = `{"name":"paid","limit":7,"types":[],"schemas":{},"maxProcessingSeconds":null,"push":null,` +
	`"logs":"on","paused":null,"ready":4,"scheduled":2,"running":1,"version":3}`

func TestQueues_Read(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	wantJSON(t, r.do("GET", "/admin/queues", ""), 200, `{"items":[`+
		`{"name":"main","limit":null,"types":[],"schemas":{},"maxProcessingSeconds":null,"push":null,"logs":"on",`+
		`"paused":null,"ready":4,"scheduled":2,"running":1,"version":0},`+storedQueue+`]}`)
	rec := r.do("GET", "/admin/queues/paid", "")
	wantJSON(t, rec, 200, storedQueue)
	wantHeader(t, rec, "ETag", `"3"`)
	for _, name := range []string{"PAID", "films", "pa%20id", strings.Repeat("a", 500)} {
		rec := r.do("GET", "/admin/queues/"+name, "")
		wantProblem(t, rec, 404, "UNKNOWN_QUEUE")
		if !strings.Contains(rec.Body.String(), "known queues: main, paid") {
			t.Errorf("it does not name the known queues: %s", rec.Body)
		}
	}
}

// stored is what queueBook notes of a declaration of films.
func stored(limit int, ifVersion int64) string {
	return fmt.Sprintf("store %+v, if %d", job.Queue{Name: "films", Limit: limit}, ifVersion)
}

func TestQueues_Declare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body    string
		headers []string
		want    string
	}{
		"no body": {"", nil, stored(0, -1)},
		"a limit": {`{"limit":5}`, nil, stored(5, -1)},
		"null":    {`{"limit":null}`, nil, stored(0, -1)},
		"types and times": {`{"types":["A","B_2"],"maxProcessingSeconds":3600}`, nil, fmt.Sprintf("store %+v, if -1",
			job.Queue{Name: "films", Types: []string{"A", "B_2"}, MaxRun: time.Hour})},
		"a schema": {`{"types":["A"],"schemas":{"A":{ "type": "object" }}}`, nil, fmt.Sprintf("store %+v, if -1",
			job.Queue{Name: "films", Types: []string{"A"}, Schemas: map[string]string{"A": `{"type":"object"}`}})},
		"logs off": {`{"logs":"off"}`, nil, fmt.Sprintf("store %+v, if -1",
			job.Queue{Name: "films", LogsOff: true})},
		"logs on":        {`{"logs":"on"}`, nil, stored(0, -1)},
		"logs null":      {`{"logs":null}`, nil, stored(0, -1)},
		"a version":      {"{}", []string{"If-Match", `"7"`}, stored(0, 7)},
		"only a new one": {"{}", []string{"If-None-Match", "*"}, stored(0, 0)},
	} {
		r := newRooms(t)
		rec := r.json("PUT", "/admin/queues/films", c.body, c.headers...)
		wantHeader(t, rec, "ETag", `"4"`)
		if rec.Code != 200 || !slices.Equal(r.queues.asked, []string{c.want}) {
			t.Errorf("%s: %d, %q, want %q", name, rec.Code, r.queues.asked, c.want)
		}
	}
	for body, field := range map[string]string{`{"limit":-1}`: "limit", `{"limit":1.5}`: "limit",
		`{"limit":"5"}`: "limit", `{"paused":true}`: "paused", `[]`: "", `{"types":"A"}`: "types", `{"types":["a"]}`: "",
		`{"types":["A","A"]}`: "", `{"maxProcessingSeconds":0}`: "maxProcessingSeconds",
		`{"logs":"OFF"}`: "logs", `{"logs":false}`: "logs", `{"logs":""}`: "logs",
		`{"schemas":[]}`: "schemas", `{"schemas":{"A":{"type":"thing"}}}`: "schemas",
		`{"schemas":{"A":{"$ref":"http://127.0.0.1/"}}}`: "schemas", `{"schemas":{"a":{}}}`: "",
		`{"types":["A"],"schemas":{"B":{}}}`:                                             "",
		`{"schemas":{"A":{"const":"` + strings.Repeat("x", job.MaxQueueSchemas) + `"}}}`: "",
		`{"maxProcessingSeconds":86401}`:                                                 "maxProcessingSeconds", `{"maxProcessingSeconds":"1h"}`: "maxProcessingSeconds",
	} {
		r := newRooms(t)
		var fields []string
		if field != "" {
			fields = []string{field}
		}
		wantProblem(t, r.json("PUT", "/admin/queues/films", body), 400, "INVALID_REQUEST", fields...)
		if r.queues.asked != nil {
			t.Errorf("%s: %q", body, r.queues.asked)
		}
	}
	for _, name := range []string{"main", ".films", "a%20b", strings.Repeat("a", 81)} {
		wantProblem(t, newRooms(t).json("PUT", "/admin/queues/"+name, ""), 400, "INVALID_REQUEST")
	}
}

// A submit into a queue with a schema for its type is checked by it, whether the server runs the type or not.
func TestQueues_Schema(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	asked := job.Queue{Name: "paid", Types: []string{"RESIZE", "PAIR"}, Version: 3}
	const size = `{"type":"object","required":["width"],"properties":{"width":{"type":"integer","minimum":1}}}`
	asked.Schemas = map[string]string{"RESIZE": size, "PAIR": size}
	r.queues.Set([]job.Queue{asked})
	for body, field := range map[string]string{
		`{"type":"RESIZE","payload":{"width":512}}`:        "",
		`{"type":"RESIZE","payload":{}}`:                   "payload.width",
		`{"type":"RESIZE","payload":{"width":0}}`:          "payload.width",
		`{"type":"RESIZE"}`:                                "payload",
		`{"type":"RESIZE","queue":"paid","payload":[]}`:    "payload",
		`{"type":"PAIR","queue":"paid","payload":{"a":1}}`: "payload.width",
		`{"type":"PAIR","payload":{"a":1}}`:                "", // it runs here, in main
	} {
		r.submitted = nil
		rec := r.post(body)
		if field == "" {
			if rec.Code != 202 || len(r.submitted) != 1 {
				t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			}
			continue
		}
		wantProblem(t, rec, 422, "INVALID_PAYLOAD", field)
		if r.submitted != nil {
			t.Errorf("%s: submitted %v", body, r.submitted)
		}
	}
}

func TestQueues_Change(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		asked        string
		status       int
	}{
		{"DELETE", "/admin/queues/paid", "delete paid", 204},
		{"POST", "/admin/queues/paid/purge", "purge paid", 200}, {"POST", "/admin/queues/main/purge", "purge main", 200},
	} {
		r := newRooms(t)
		rec := r.do(c.method, c.path, "")
		if rec.Code != c.status || !slices.Equal(r.queues.asked, []string{c.asked}) {
			t.Errorf("%s %s: %d, %q: %s", c.method, c.path, rec.Code, r.queues.asked, rec.Body)
		}
	}
	r := newRooms(t)
	wantProblem(t, r.do("DELETE", "/admin/queues/main", ""), 400, "INVALID_REQUEST", "name")
	r.queues.err = fmt.Errorf("delete: %w", job.ErrQueueInUse)
	wantProblem(t, r.do("DELETE", "/admin/queues/paid", ""), 409, "INVALID_STATE_TRANSITION")
}

// A purge that stops half-way says what it has done.
func TestQueues_PurgeHalfWay(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	for _, c := range []struct {
		purged int
		err    error
		want   string
	}{
		{12, nil, `{"cancelled":12,"more":false}`}, {2000, nil, `{"cancelled":2000,"more":true}`},
		{3, job.ErrUnavailable, `{"cancelled":3,"more":true}`},
	} {
		r.queues.purged, r.queues.err = c.purged, c.err
		wantJSON(t, r.do("POST", "/admin/queues/paid/purge", ""), 200, c.want)
	}
	r.queues.purged, r.queues.err = 0, job.ErrUnavailable
	wantProblem(t, r.do("POST", "/admin/queues/paid/purge", ""), 503, "SYSTEM_UNHEALTHY")
}

func TestQueues_Submit(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string]string{`"paid"`: "paid", `"main"`: "", "null": ""} {
		r := newRooms(t)
		if rec := r.json("POST", "/paid/submit", `{"queue":`+queue+`}`); rec.Code != 202 || r.submitted[0].Queue != want {
			t.Errorf("%s: %d, %+v", queue, rec.Code, r.submitted)
		}
	}
	for queue, c := range map[string]struct {
		status int
		code   string
	}{`"films"`: {422, "UNKNOWN_QUEUE"}, `""`: {400, "INVALID_REQUEST"}, "7": {400, "INVALID_REQUEST"}} {
		r := newRooms(t)
		for _, path := range []string{"/paid/submit", "/jobs", "/api/jobs"} {
			body := `{"queue":` + queue + `}`
			switch path {
			case "/jobs":
				body = `{"type":"SIMULATION","queue":` + queue + `}`
			case "/api/jobs":
				body = `{"jobType":"SIMULATION","queue":` + queue + `}`
			}
			wantProblem(t, r.json("POST", path, body), c.status, c.code, "queue")
		}
		if r.submitted != nil {
			t.Errorf("%s: %+v", queue, r.submitted)
		}
	}
	stranger := newRooms(t)
	stranger.behind(callers["anonymous"])
	wantProblem(t, stranger.json("POST", "/public/submit", `{"queue":"paid"}`), 401, "UNAUTHORIZED")
	rec := stranger.json("POST", "/public/submit", `{"queue":"main"}`)
	if rec.Code != 202 || len(stranger.submitted) != 1 {
		t.Errorf("a stranger's submit into main: %d, %+v", rec.Code, stranger.submitted)
	}
	r := newRooms(t)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		return job.Accepted{}, fmt.Errorf("submit: %w", job.ErrOwnLimit)
	}
	rec = r.json("POST", "/paid/submit", `{"queue":"paid"}`)
	wantProblem(t, rec, 503, "QUEUE_FULL")
	if !strings.Contains(rec.Body.String(), "the job's queue has as many jobs as it may have") {
		t.Errorf("it does not say what is full: %s", rec.Body)
	}
}
