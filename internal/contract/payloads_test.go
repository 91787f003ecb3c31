package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
)

func headers(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"X-%d":""`, i))
	}
	return strings.Join(all, ",")
}

// The description and the handlers agree on payloads: both accept the same ones, and both refuse the same ones for
// their shape.
func TestPayloads_TheSchemasAndTheHandlersAgree(t *testing.T) {
	c, types := load(t), builtIn()
	for _, p := range []struct {
		typ, payload string
		fits         bool
	}{
		{"SIMULATION", `null`, true},
		{"SIMULATION", `{}`, true},
		{"SIMULATION", `{"steps":[]}`, false},
		{"SIMULATION", `{"steps":[{"type":"FAIL"}]}`, true},
		{"SIMULATION", `{"steps":[{"type":"SLEEP"}]}`, false},
		{"SIMULATION", `{"steps":[{"type":"SLEEP","durationMs":3600000}]}`, true},
		{"SIMULATION", `{"steps":[{"type":"SLEEP","durationMs":3600001}]}`, false},
		{"SIMULATION", `{"steps":[{"type":"SLEEP","latencyMs":1}]}`, false},
		{"SIMULATION", `{"steps":[{"type":"LOG"}]}`, false},
		{"SIMULATION", `{"steps":[{"type":"COMPUTE","iterations":-1}]}`, false},
		{"SIMULATION", `{"steps":[{"type":"DANCE"}]}`, false},
		{"SIMULATION", `{"steps":[` + strings.Repeat(`{"type":"FAIL"},`, 100) + `{"type":"FAIL"}]}`, false},
		{"SEND_EMAIL", `null`, false},
		{"SEND_EMAIL", `{"to":"a@b.c","subject":"s"}`, true},
		{"SEND_EMAIL", `{"to":"a@b.c","subject":"s","body":"b"}`, true},
		{"EMAIL", `{"to":["a@b.c","d@b.c"],"subject":"s","html":"b"}`, true},
		{"EMAIL", `{"to":["a@b.c","a@b.c"],"subject":"s","html":"b"}`, false},
		{"EMAIL", `{"to":[],"subject":"s","html":"b"}`, false},
		{"EMAIL", `{"to":"nobody","subject":"s","html":"b"}`, false},
		{"EMAIL", `{"to":"a@b.c","subject":"` + strings.Repeat("s", 201) + `","html":"b"}`, false},
		{"EMAIL", `{"to":"a@b.c","subject":"s","body":"b","cc":"x"}`, false},
		{"SEND_WEBHOOK", `{}`, false},
		{"SEND_WEBHOOK", `{"url":"https://example.org/","body":7,"headers":{"X-A":"b"},"timeoutSeconds":300}`, true},
		{"SEND_WEBHOOK", `{"url":"https://example.org/","timeoutSeconds":301}`, false},
		{"SEND_WEBHOOK", `{"url":"ftp://example.org/"}`, false},
		{"SEND_WEBHOOK", `{"url":"https://example.org/","headers":{"X-A":7}}`, false},
		{"SEND_WEBHOOK", `{"url":"https://example.org/","headers":{` + headers(20) + `}}`, true},
		{"SEND_WEBHOOK", `{"url":"https://example.org/","headers":{` + headers(21) + `}}`, false},
		{"GENERATE_PDF", `{"title":"t"}`, true},
		{"GENERATE_PDF", `{"title":""}`, false},
		{"GENERATE_PDF", `{"title":"t","table":{"header":["a"],"rows":[[null],[1.5],[true],["x"]]}}`, true},
		{"GENERATE_PDF", `{"title":"t","table":{"header":["a"],"rows":[[{}]]}}`, false},
		{"GENERATE_PDF", `{"title":"t","table":{"header":[]}}`, false},
		{"GENERATE_PDF", `{"title":"t","paragraphs":[` + strings.Repeat(`"",`, 500) + `""]}`, false},
		{"REPORT", `null`, true},
		{"REPORT", `{"kind":"jobs","from":"2026-05-01T00:00:00Z","to":"2026-05-02T00:00:00+02:00","format":"pdf"}`, true},
		{"REPORT", `{"kind":"people"}`, false},
		{"REPORT", `{"from":"yesterday"}`, false},
		{"REPORT", `{"format":"xls"}`, false},
		{"FORWARD_DOCUMENT", `{"documentId":"d","contentType":"text/plain","body":"x","endpoints":["https://a.example.org"]}`,
			true},
		{"FORWARD_DOCUMENT", `{"documentId":"d","contentType":"text/plain","body":"x","endpoints":[]}`, false},
		{"FORWARD_DOCUMENT", `{"documentId":"d","contentType":"text/plain","endpoints":["https://a.example.org"]}`, false},
		{"FORWARD_DOCUMENT", `{"documentId":"","contentType":"text/plain","body":1,"endpoints":["https://a.example.org"]}`,
			false},
		{"FORWARD_DOCUMENT", `{"documentId":"d","contentType":"text/plain","body":1,"endpoints":["https://a.example.org",` +
			`"https://a.example.org"]}`, false},
		{"FORWARD_DOCUMENT", `{"documentId":"d","contentType":"text/plain","body":1,"endpoints":["a.example.org"]}`, false},
	} {
		taken := types.Check(p.typ, []byte(p.payload))
		body := fmt.Sprintf(`{"type":%q,"payload":%s}`, p.typ, p.payload)
		fits := c.Fits("Submit", []byte(body))
		if (taken == nil) != p.fits || (fits == nil) != p.fits {
			t.Errorf("%.200s: the handler says %v, the description %v, want %t", body, taken, fits, p.fits)
		}
		other := c.Fits("CreateApiJob", []byte(strings.Replace(body, `"type"`, `"jobType"`, 1)))
		if (other == nil) != p.fits {
			t.Errorf("%.200s, as jobType: %v, want %t", body, other, p.fits)
		}
	}
}

// The event that a callback sends fits its schema in the description.
func TestCallback_IsDescribed(t *testing.T) {
	c := load(t)
	at := time.Date(2026, 5, 1, 11, 31, 57, 961931000, time.UTC)
	ended := job.Job{
		ID: "019de340-01fe-7a58-be69-567cd7d6b7d4", Generation: 1, Tier: job.Paid, Type: "SIMULATION", Status: job.Completed,
		MaxRetries: 5,
		ArrivedAt:  at, EndedAt: at, Result: []byte(`{"stepsRun":1,"elapsedMs":10,"computed":null}`), TraceID: "trace-1",
	}
	failed := ended
	failed.Status, failed.Result, failed.Cause, failed.LastError, failed.TraceID = job.NeedDiscard, nil, job.HandlerError,
		"boom", ""
	odd := ended
	odd.Result = []byte(`{"stepsRun":1}`)
	for name, o := range map[string]struct {
		job  job.Job
		fits bool
	}{"completed": {ended, true}, "failed": {failed, true}, "a result of another shape": {odd, false}} {
		var payload struct{ Event json.RawMessage }
		if err := json.Unmarshal(handlers.Callback(job.Outcome{Job: o.job}), &payload); err != nil {
			t.Fatal(err)
		}
		if err := c.Fits("JobEnded", payload.Event); (err == nil) != o.fits {
			t.Errorf("%s: %v: %s", name, err, payload.Event)
		}
	}
}
