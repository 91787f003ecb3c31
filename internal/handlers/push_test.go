package handlers

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// pushedLease is a job of a queue that pushes.
func pushedLease() *job.WorkerLease {
	l := &job.WorkerLease{Sealed: "v1.sealed", For: 30 * time.Second, MaxRun: 10 * time.Second}
	l.Ends = time.Now().Add(l.MaxRun)
	l.ID, l.Tier, l.Type, l.Queue, l.Payload = theJob, "PAID", "RESIZE", "pictures", []byte(`{"width": 512}`)
	l.StartedAt = time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC)
	return l
}

// Each answer of a receiver decides how the job goes on.
func TestPush_Answers(t *testing.T) {
	at := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
	long, deep := strings.Repeat("x", 100), strings.Repeat("[", 33)+strings.Repeat("]", 33)
	for name, c := range map[string]struct {
		status                int
		retryAfter, body      string
		permanent4xx, noLease bool
		result                string // "" = an error
		cut, takes, permanent bool
		later, laterAtMost    time.Duration // > 0: the job goes back for so long
	}{
		"JSON":                  {status: 200, body: ` {"w": 1024, "a": [1, 1e400]} `, result: `{"w":1024,"a":[1,1e400]}`},
		"a name twice":          {status: 201, body: `{"a":1,"a":2}`, result: `{"a":1,"a":2}`},
		"a number":              {status: 200, body: "7", result: "7"},
		"nothing":               {status: 200, result: "null"},
		"no content":            {status: 204, result: "null"},
		"text":                  {status: 200, body: "it's done", result: `"it's done"`},
		"half JSON":             {status: 200, body: `{"a":`, result: `"{\"a\":"`},
		"two values":            {status: 200, body: `1 2`, result: `"1 2"`},
		"deep JSON":             {status: 200, body: deep, result: `"` + deep + `"`},
		"not UTF-8":             {status: 200, body: "\xff\xfe"},
		"too long":              {status: 200, body: `"` + long + long, result: `"` + long + long[:99], cut: true},
		"202":                   {status: 202, body: `{"id":7}`, takes: true},
		"202 without a lease":   {status: 202, noLease: true},
		"429":                   {status: 429},
		"429 with a time":       {status: 429, retryAfter: "7", later: 7 * time.Second, laterAtMost: 7 * time.Second},
		"503 with a date":       {status: 503, retryAfter: at, later: 80 * time.Second, laterAtMost: 90 * time.Second},
		"503 with no time":      {status: 503, retryAfter: "soon"},
		"503 with too long":     {status: 503, retryAfter: "86400", later: time.Hour, laterAtMost: time.Hour},
		"503 at once":           {status: 503, retryAfter: "0", later: time.Second, laterAtMost: time.Second},
		"500 with a time":       {status: 500, retryAfter: "7"},
		"502":                   {status: 502},
		"400":                   {status: 400},
		"410":                   {status: 410},
		"400, permanent":        {status: 400, permanent4xx: true, permanent: true},
		"404, permanent":        {status: 404, permanent4xx: true, permanent: true},
		"408, permanent 4xx":    {status: 408, permanent4xx: true},
		"425, permanent 4xx":    {status: 425, permanent4xx: true},
		"429, permanent 4xx":    {status: 429, permanent4xx: true},
		"500, permanent 4xx":    {status: 500, permanent4xx: true},
		"a redirect":            {status: 302},
		"a redirect that keeps": {status: 307, permanent4xx: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, last := listen(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/jobs" {
					t.Errorf("it followed a redirect to %s", r.URL)
				}
				w.Header().Set("Location", "/elsewhere")
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			lease := "v1.sealed"
			if c.noLease {
				lease = ""
			}
			to := job.Push{URL: url + "/jobs", Permanent4xx: c.permanent4xx}
			answer, err := NewPusher(wire{}, 200).Push(running(t), to, pushedLease(), lease)
			last()
			if answer.Takes != c.takes || answer.Cut != c.cut || string(answer.Result) != c.result ||
				(err == nil) != (c.result != "" || c.takes) {
				t.Fatalf("%+v %s, %v", answer, answer.Result, err)
			}
			if err == nil {
				return
			}
			v := handler.Judge(err)
			if v.Permanent != c.permanent || v.Later < c.later || v.Later > c.laterAtMost || v.RetryAfter != -1 {
				t.Errorf("%v is %+v", err, v)
			}
		})
	}
}

// The payload is the body as it was submitted. The headers have the facts about the job, and the id is that of the
// other attempts.
func TestPush_Request(t *testing.T) {
	t.Parallel()
	url, last := listen(t, func(http.ResponseWriter, *http.Request) {})
	p, l := NewPusher(wire{}, 1000), pushedLease()
	if _, err := p.Push(running(t), job.Push{URL: url}, l, "v1.sealed"); err != nil {
		t.Fatal(err)
	}
	got := last()
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": string(theJob) + "-r2", "X-Job-Type": "RESIZE",
		"X-Job-Tier": "PAID", "X-Job-Queue": "pictures", "X-Job-Attempt": "3", "X-Job-Lease": "v1.sealed",
		"X-Job-Lease-Seconds": "30", "X-Job-Deadline": "2026-05-01T11:32:07.000000Z", "X-Trace-Id": "the-trace",
		"Owner": "queue:pictures",
	} {
		if got.header.Get(name) != value {
			t.Errorf("%s = %q, want %q", name, got.header.Get(name), value)
		}
	}
	if got.method != "POST" || got.body != `{"width": 512}` {
		t.Errorf("%s %s", got.method, got.body)
	}
	l.Payload = nil
	if _, err := p.Push(running(t), job.Push{URL: url}, l, ""); err != nil {
		t.Fatal(err)
	}
	got = last()
	if got.body != "null" || len(got.header["X-Job-Lease"])+len(got.header["X-Job-Lease-Seconds"]) > 0 {
		t.Errorf("%+v", got)
	}
}

// A call that fails costs a retry, also one that the guard refuses: an operator can mend the queue.
func TestPush_NoAnswer(t *testing.T) {
	t.Parallel()
	refuses := wire{closed: func(string) error { return errors.New("is refused") }}
	url, _ := listen(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	never := pushedLease()
	never.Ends = time.Now().Add(50 * time.Millisecond)
	for name, c := range map[string]struct {
		wire wire
		url  string
		l    *job.WorkerLease
	}{
		"refused": {refuses, "http://10.0.0.1/", pushedLease()},
		"nobody":  {wire{}, "http://127.0.0.1:1/", pushedLease()},
		"never":   {wire{}, url, never},
	} {
		_, err := NewPusher(c.wire, 1000).Push(running(t), job.Push{URL: c.url, Permanent4xx: true}, c.l, "")
		if err == nil || handler.Judge(err) != (handler.Verdict{RetryAfter: -1}) {
			t.Errorf("%s: %v is %+v", name, err, handler.Judge(err))
		}
	}
}
