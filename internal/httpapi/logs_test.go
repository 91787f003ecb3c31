package httpapi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const logsOfKnown = "/api" + jobKnown + "/logs"

// logOf returns a log whose reads answer the lines behind one.
func logOf(lines ...job.LogLine) func(int64) ([]job.LogLine, error) {
	return func(after int64) (found []job.LogLine, err error) {
		for _, l := range lines {
			if l.Seq() > after {
				found = append(found, l)
			}
		}
		return found, nil
	}
}

func line(attempt, number int, level, text string) job.LogLine {
	return job.LogLine{Attempt: attempt, Number: number, At: aMoment, Level: level, Text: text}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	lines := []job.LogLine{
		line(1, 1, "INFO", "begins"), line(1, 2, "DEBUG", "detail"),
		{Attempt: 1, Number: 5, At: aMoment, Level: job.GapLevel, Lost: 3},
		line(1, 6, "ERROR", "no"), line(2, 1, "INFO", "again"),
	}
	lines[3].Attrs = []byte(`{"n":1}`)
	const at = `,"at":"2026-05-01T11:31:57.961931Z"`
	first := `{"seq":1000001,"attempt":1` + at + `,"level":"INFO","text":"begins"}`
	gap := `{"seq":1000005,"attempt":1` + at + `,"level":"GAP","text":"","lost":3}`
	wrong := `{"seq":1000006,"attempt":1` + at + `,"level":"ERROR","text":"no","attrs":{"n":1}}`
	again := `{"seq":2000001,"attempt":2` + at + `,"level":"INFO","text":"again"}`
	for query, want := range map[string]string{
		"?level=INFO": `{"items":[` + first + "," + gap + "," + wrong + "," + again +
			`],"after":2000001,"more":false,"ended":false}`,
		"?level=ERROR&limit=1":  `{"items":[` + gap + `],"after":1000005,"more":true,"ended":false}`,
		"?attempt=2":            `{"items":[` + again + `],"after":2000001,"more":false,"ended":false}`,
		"?after=1000006":        `{"items":[` + again + `],"after":2000001,"more":false,"ended":false}`,
		"?after=2000001":        `{"items":[],"after":2000001,"more":false,"ended":false}`,
		"?after=2000001&wait=0": `{"items":[],"after":2000001,"more":false,"ended":false}`,
	} {
		r := newRooms(t)
		r.logLines = logOf(lines...)
		r.find = func(job.ID) (job.Job, error) { return at2(job.Processing), nil }
		wantJSON(t, r.do("GET", logsOfKnown+query, ""), 200, want)
	}
	for _, query := range []string{
		"?level=info", "?attempt=0", "?after=-1", "?after=x", "?wait=61s", "?limit=2001", "?x=1",
	} {
		r := newRooms(t)
		r.find = func(job.ID) (job.Job, error) { return at2(job.Processing), nil }
		field, _, _ := strings.Cut(query[1:], "=")
		wantProblem(t, r.do("GET", logsOfKnown+query, ""), 400, "INVALID_REQUEST", field)
	}
	r := newRooms(t)
	wantProblem(t, r.do("GET", logsOfKnown, ""), 404, "JOB_NOT_FOUND")
	r.find = func(job.ID) (job.Job, error) { return at2(job.Completed), nil }
	r.logLines = func(int64) ([]job.LogLine, error) { return nil, fmt.Errorf("logs: %w", job.ErrUnavailable) }
	wantProblem(t, r.do("GET", logsOfKnown, ""), 503, "SYSTEM_UNHEALTHY")
}

func at2(s job.Status) job.Job {
	j := at(s, 1)
	j.Generation = 1
	return j
}

// A request waits until there is a line that it asks for, or the job has ended.
func TestLogs_Wait(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"?wait=20s":             `"after":1000001,"more":false,"ended":false`,
		"?wait=20s&level=ERROR": `"after":1000002,"more":false,"ended":false`,
		"?wait=20s&attempt=9":   `"after":1000002,"more":false,"ended":true`,
	} {
		r := newRooms(t)
		n := 0
		r.find = func(job.ID) (job.Job, error) { return at2(job.Processing), nil }
		r.logLines = func(after int64) ([]job.LogLine, error) {
			n++
			return logOf([]job.LogLine{line(1, 1, "INFO", "a"), line(1, 2, "ERROR", "b")}[:min(n-1, 2)]...)(after)
		}
		r.follow = telling(at2(job.Processing), at2(job.Processing), at2(job.Processing), at2(job.Completed))
		if rec := r.do("GET", logsOfKnown+query, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
	}
}

// TIERQ_REDACT hides lines and notes from read-only keys, where it hides everything of a type.
func TestLogs_Redacted(t *testing.T) {
	t.Parallel()
	for names, hidden := range map[string]bool{"*": true, "secret": false} {
		r := newRooms(t)
		r.deps.Redact = map[string][]string{"SIMULATION": {names}}
		r.behind(callers["read-only"])
		told := at2(job.Processing)
		told.Progress = &job.Progress{At: aMoment, Done: 1, Note: "ada@example.com"}
		r.find = func(job.ID) (job.Job, error) { return told, nil }
		l := line(1, 1, "INFO", "ada@example.com")
		l.Attrs = []byte(`{"to":"ada@example.com"}`)
		r.logLines = logOf(l)
		told.LogBytes = 1
		r.follow = telling(told)
		for _, path := range []string{
			logsOfKnown, "/api" + jobKnown, "/result/poll?jobId=" + string(knownID), eventsOfKnown + "?logs=true",
		} {
			rec := r.do("GET", path, "")
			if body := rec.Body.String(); rec.Code != 200 || strings.Contains(body, "ada") == hidden {
				t.Errorf("%s hides %s: %d %s", path, names, rec.Code, body)
			}
		}
	}
}

func TestJobEvents_ProgressAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var life []job.Job
		for n := range 12 { // ten times a second
			j := at2(job.Processing)
			j.Progress, j.LogBytes = &job.Progress{At: aMoment.Add(time.Duration(n) * time.Second), Done: int64(n)}, n
			life = append(life, j)
		}
		life = append(life, at2(job.Completed))
		lines := []job.LogLine{line(1, 1, "INFO", "a"), line(1, 2, "INFO", "b"), line(1, 3, "INFO", "c")}
		follow := func(_ context.Context, heard func(job.Job) error) error {
			for _, j := range life {
				if err := heard(j); err != nil {
					return err
				}
				<-time.After(100 * time.Millisecond)
			}
			return nil
		}
		for query, c := range map[string]struct {
			last string
			want []string
		}{
			"": {"", []string{"2000", "status PROCESSING-1-0-1", "progress", "progress", "status COMPLETED-1-0-1", "bye"}},
			"?logs=true": {"", []string{
				"2000", "status PROCESSING-1-0-1~0", "log PROCESSING-1-0-1~1000001", "log PROCESSING-1-0-1~1000002",
				"log PROCESSING-1-0-1~1000003", "progress", "progress", "status COMPLETED-1-0-1~1000003", "bye",
			}},
			"?logs=true&after=1000001": {"PROCESSING-1-0-1~1000002", []string{
				"2000", "progress", "log PROCESSING-1-0-1~1000003", "progress", "progress", "status COMPLETED-1-0-1~1000003", "bye",
			}},
		} {
			r := newRooms(t)
			r.logLines, r.follow = logOf(lines...), follow
			r.find = func(job.ID) (job.Job, error) { return life[0], nil }
			var headers []string
			if c.last != "" {
				headers = []string{"Last-Event-ID", c.last}
			}
			rec := r.do("GET", eventsOfKnown+query, "", headers...)
			if got := said(rec.Body.String()); !slices.Equal(got, c.want) {
				t.Errorf("%q: %q, want %q", query, got, c.want)
			}
		}
	})
	r := newRooms(t)
	wantProblem(t, r.do("GET", eventsOfKnown+"?logs=1", ""), 400, "INVALID_REQUEST", "logs")
}

// wrongIn sends a body that the description does not allow: the answer, or an entry of it, names a field whose name
// begins so, after the quote.
func (r *rooms) wrongIn(t *testing.T, path, body string, status int, field string) {
	t.Helper()
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	if rec.Code != status || !strings.Contains(rec.Body.String(), `"errors":[{"field":`+field) {
		t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
	}
}

func TestWorker_Log(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["worker"])
	r.leases.logged = []job.WorkerLogged{{Word: job.OK}, {Word: job.Lost}, {Word: job.Off}}
	rec := r.json("POST", "/api/worker/log", `{"worker":"w","logs":[{"lease":"v1.a","from":7,"lines":["one",null,`+
		`{"level":"ERROR","text":"two","attrs":{"n":1},"ageMs":1500}]},{"lease":"v1.b","lines":["x"]},{"lease":"v1.c"}]}`)
	if body := rec.Body.String(); rec.Code != 200 || !strings.HasPrefix(body, `{"logs":[{"outcome":"OK"},{"error":{`) ||
		!strings.Contains(body, `"errorCode":"LEASE_LOST"`) || !strings.HasSuffix(body, `,{"outcome":"OFF"}]}`) {
		t.Errorf("%d %s", rec.Code, body)
	}
	want := []job.WorkerLog{
		{Sealed: "v1.a", From: 7, Lines: []job.LogEntry{
			{Level: "INFO", Text: "one"}, {},
			{Level: "ERROR", Text: "two", Attrs: []byte(`{"n":1}`), Age: 1500 * time.Millisecond},
		}},
		{Sealed: "v1.b", Lines: []job.LogEntry{{Level: "INFO", Text: "x"}}}, {Sealed: "v1.c"},
	}
	if !reflect.DeepEqual(r.leases.logs, want) || r.leases.keys[0] != mine {
		t.Errorf("%+v by %q", r.leases.logs, r.leases.keys)
	}
	for _, body := range []string{
		`{}`, `{"logs":[]}`, `{"logs":1}`, `{"logs":[{"lease":"v1.a"},{"lease":"v1.a"}]}`,
		`{"logs":[{"lease":"v1.a","lines":[` + strings.Repeat(`"x",`, 1000) + `"x"]}]}`,
	} {
		r.wrongIn(t, "/api/worker/log", body, 400, `"logs`)
	}
	r.leases.logged = []job.WorkerLogged{{Word: job.OK}} // of the other entry
	for entry, field := range map[string]string{
		`{"lines":["x"]}`: "lease", `{"lease":"v1.a","lines":[{"level":"GAP","text":"3"}]}`: "lines.level",
		`{"lease":"v1.a","lines":[7]}`: "lines", `{"lease":"v1.a","lines":[null]}`: "lines",
		`{"lease":"v1.a","from":0}`: "from",
		`{"lease":"v1.a","lines":["` + strings.Repeat("x", job.MaxLogLine+1) + `"]}`: "lines",
		`{"lease":"v1.a","lines":[{"text":"x","attrs":[1]}]}`:                        "lines.attrs",
		`{"lease":"v1.a","lines":[{"text":"x","attrs":{"a":1,"a":2}}]}`:              "lines",
	} {
		r.leases.logs = nil
		r.wrongIn(t, "/api/worker/log", `{"logs":[`+entry+`,{"lease":"v1.b","lines":["y"]}]}`, 200, `"`+field)
		if len(r.leases.logs) != 1 || r.leases.logs[0].Sealed != "v1.b" {
			t.Errorf("%s: sent %+v", entry, r.leases.logs)
		}
	}
	r.leases.err = fmt.Errorf("call: %w", job.ErrAmbiguous)
	wantProblem(t, r.json("POST", "/api/worker/log", `{"logs":[{"lease":"v1.x","from":1,"lines":["a"]}]}`),
		503, "SYSTEM_UNHEALTHY")
}

func TestWorker_Progress(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["worker"])
	r.leases.pulses = func([]job.WorkerBeat) []job.WorkerPulse { return []job.WorkerPulse{{Word: job.OK}, {Word: job.OK}} }
	rec := r.json("POST", "/api/worker/heartbeat",
		`{"leases":[{"lease":"v1.a","progress":{"done":3,"total":9,"note":"page 3","step":7}},`+
			`{"lease":"v1.b","progress":{"done":3,"total":null,"note":null}}]}`)
	want := []*job.Progress{{Done: 3, Total: 9, Note: "page 3"}, {Done: 3}}
	if rec.Code != 200 || r.leases.beats[0].Step != 7 || r.leases.beats[1].Step != 0 ||
		!reflect.DeepEqual([]*job.Progress{r.leases.beats[0].Progress, r.leases.beats[1].Progress}, want) {
		t.Errorf("%d %s: %+v", rec.Code, rec.Body, r.leases.beats)
	}
	for _, p := range []string{
		`7`, `{"done":-1}`, `{"done":1.5}`, `{"done":1,"total":"9"}`, `{"done":1,"x":1}`, `{"done":1,"step":0}`,
		`{"done":1,"note":7}`, `{"done":1,"note":"` + strings.Repeat("ü", 101) + `"}`} {
		body := `{"leases":[{"lease":"v1.a","progress":` + p + `}]}`
		r.leases.pulses = func([]job.WorkerBeat) []job.WorkerPulse { return []job.WorkerPulse{{Word: job.OK}} }
		r.wrongIn(t, "/api/worker/heartbeat", body, 200, `"progress`)
	}
}
