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

// Each entry gets its answer in its place. A bad entry is refused with the error members, and the entries around it
// are accepted.
func TestBatch(t *testing.T) {
	entries := []string{
		`{"type":"PAIR","payload":{"A":1},"idempotencyKey":"one"}`,
		`{"nope":1}`,
		`{"type":"PAIR","type":"PAIR"}`,
		`{"type":"NOPE"}`,
		`{"delaySeconds":30}`,
		`{"payload":"` + strings.Repeat("x", 999) + `"}`,
		`[]`,
		`{"idempotencyKey":""}`,
		`{"idempotencyKey":"two"}`,
		`{"maxRetries":9}`,
		"{\"payload\":\"\xff\"}",
		`{"payload":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		`{}`,
	}
	const want = `{"apiResponseData":[
		{"jobId":"019de340-01fe-7a58-be69-567cd7d6b700","currentJobStatus":"PENDING","retryAfter":3},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"nope: unknown field","errors":[{"field":"nope","reason":"unknown field"}]},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"type: is there twice","errors":[{"field":"type","reason":"is there twice"}]},
		{"errorCode":"UNKNOWN_JOB_TYPE","message":"There is no such job type.","detail":"known types: PAIR, SIMULATION","errors":[{"field":"type","reason":"known types: PAIR, SIMULATION"}]},
		{"jobId":"019de340-01fe-7a58-be69-567cd7d6b701","currentJobStatus":"SCHEDULED","retryAfter":30},
		{"errorCode":"PAYLOAD_TOO_LARGE","message":"The request is too large.","detail":"the payload has 1001 bytes; at most 1000 are taken"},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"the body must be a JSON object"},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"idempotencyKey: must be 1 to 255 visible ASCII characters","errors":[{"field":"idempotencyKey","reason":"must be 1 to 255 visible ASCII characters"}]},
		{"errorCode":"QUEUE_FULL","retryAfter":7,
			"message":"Request cannot be accepted at the moment due to high load. Please try again later.",
			"detail":"Request cannot be accepted at the moment due to high load. Please try again later."},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"maxRetries: may lower the tier's 5, not raise it","errors":[{"field":"maxRetries","reason":"may lower the tier's 5, not raise it"}]},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"not JSON, at byte 12: invalid UTF-8"},
		{"errorCode":"INVALID_REQUEST","message":"The request is not valid.","detail":"the JSON is nested deeper than 32 levels"},
		{"jobId":"019de340-01fe-7a58-be69-567cd7d6b703","errorCode":"OUTCOME_UNKNOWN","message":"The job may or may not have been accepted. Poll it before you submit it again.","detail":"The job may or may not have been accepted. Poll it before you submit it again."}
		],"timestamp":"2026-05-01T11:31:57.961931Z"}`
	for contentType, body := range map[string]string{
		"application/json":                    "\n[" + strings.Join(entries, " ,\n") + "]\n",
		"application/x-ndjson; charset=utf-8": "\n" + strings.Join(entries, "\r\n") + "\n\n",
	} {
		r := newRooms(t)
		r.hint = 3 * time.Second
		r.submitBatch = func(batch []job.Submission) (accepted []job.Accepted, errs []error) {
			for i := range batch {
				accepted, errs = append(accepted,
					job.Accepted{ID: job.ID(fmt.Sprintf("019de340-01fe-7a58-be69-567cd7d6b7%02d", i))}), append(errs, nil)
			}
			accepted[2], errs[2] = job.Accepted{}, waits{job.ErrQueueFull, 7 * time.Second}
			errs[3] = job.ErrFateUnknown
			return accepted, errs
		}
		rec := r.do("POST", "/paid/submit/batch", body, "Content-Type", contentType, "X-Trace-Id", "trace-1")
		wantJSON(t, rec, 202, want)
		wantHeader(t, rec, "Retry-After", "7")
		if len(r.submitted) != 4 {
			t.Fatalf("%d were submitted", len(r.submitted))
		}
		one, two := r.submitted[0], r.submitted[2]
		if one.Tier != job.Paid || one.Type != "PAIR" || string(one.Payload) != `{"A":1}` || one.TraceID != "trace-1" ||
			one.Idempotency.Key == "" || one.Idempotency.Key == two.Idempotency.Key {
			t.Errorf("submitted %+v", one)
		}
		if r.submitted[1].Delay != 30*time.Second {
			t.Errorf("submitted %+v", r.submitted[1])
		}
	}
}

// The idempotencyKey of an entry and the same key in the header of a submit are the same key.
func TestBatch_AnEntrysKeyIsTheHeadersKey(t *testing.T) {
	const body = `{"type":"PAIR","payload":{"A":1}}`
	r := newRooms(t)
	r.json("POST", "/paid/submit/batch", `[`+strings.Replace(body, "{", `{"idempotencyKey":"order-7",`, 1)+`]`)
	if got, want := r.submitted[0].Idempotency, keyed(t, "/paid/submit", "order-7", body); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An entry may have a trace id of its own, and then has a span of its own.
func TestBatch_AnEntrysTrace(t *testing.T) {
	r := newRooms(t)
	var spans []string
	r.deps.Trace = func(_ context.Context, _ job.Tier, trace, parent string) (string, func(job.ID, error)) {
		spans = append(spans, trace+"<"+parent)
		return "span of " + trace, func(id job.ID, err error) { spans = append(spans, fmt.Sprint(trace, ">", id, err)) }
	}
	r.Handler = NewHandler(r.deps)
	r.submitBatch = func(batch []job.Submission) ([]job.Accepted, []error) {
		return []job.Accepted{{ID: knownID}, {ID: knownID}}, []error{nil, nil}
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	rec := r.json("POST", "/paid/submit/batch",
		`[{"traceId":"order-7_a.B"},{"traceId":null},{"traceId":"a b"},{"traceId":7}]`, "traceparent", parent)
	if n := strings.Count(rec.Body.String(), "traceId: must be 1 to 64 letters, digits and . _ -"); n != 2 {
		t.Errorf("%s", rec.Body)
	}
	all := parent[3:35]
	if got := fmt.Sprint(r.submitted[0].TraceID, ", ", r.submitted[0].SpanID, ", ", r.submitted[1].TraceID, ", ",
		r.submitted[1].SpanID); got != "order-7_a.B, span of order-7_a.B, "+all+", span of "+all {
		t.Errorf("submitted %s", got)
	}
	want := []string{all + "<00f067aa0ba902b7", "order-7_a.B<", all + "><nil>", "order-7_a.B>" + string(knownID) + "<nil>"}
	if !slices.Equal(spans, want) {
		t.Errorf("spans %q", spans)
	}
}

func TestBatch_NothingToDo(t *testing.T) {
	r := newRooms(t)
	wantJSON(t, r.json("POST", "/paid/submit/batch", ` [ ] `), 202,
		`{"apiResponseData":[],"timestamp":"2026-05-01T11:31:57.961931Z"}`)
	if rec := r.json("POST", "/paid/submit/batch", `[{"nope":1}]`); rec.Code != 202 || len(r.submitted) != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestBatch_BadInput(t *testing.T) {
	t.Attr("proves", "A12 A13")
	for name, c := range map[string]struct {
		body, contentType string
		status            int
		code              string
	}{
		"empty":            {"", "application/json", 400, "INVALID_REQUEST"},
		"blank":            {" \n ", "application/x-ndjson", 400, "INVALID_REQUEST"},
		"an object":        {`{}`, "application/json", 400, "INVALID_REQUEST"},
		"not JSON":         {`hello`, "application/json", 400, "INVALID_REQUEST"},
		"cut off":          {`[{}`, "application/json", 400, "INVALID_REQUEST"},
		"cut off inside":   {`[{"type":`, "application/json", 400, "INVALID_REQUEST"},
		"a comma too many": {`[{},]`, "application/json", 400, "INVALID_REQUEST"},
		"something behind": {`[{}] {}`, "application/json", 400, "INVALID_REQUEST"},
		"lines, said JSON": {"{}\n{}", "application/json", 400, "INVALID_REQUEST"},
		"great depth": {strings.Repeat("[", 200000) + strings.Repeat("]", 200000), "application/json", 400,
			"INVALID_REQUEST"},
		"no type":           {`[{}]`, "", 415, "UNSUPPORTED_MEDIA_TYPE"},
		"a form":            {`[{}]`, "application/x-www-form-urlencoded", 415, "UNSUPPORTED_MEDIA_TYPE"},
		"too many":          {`[` + strings.Repeat(`{},`, 1000) + `{}]`, "application/json", 413, "PAYLOAD_TOO_LARGE"},
		"too many, cut off": {`[` + strings.Repeat(`{},`, 1001), "application/json", 413, "PAYLOAD_TOO_LARGE"},
		"too many lines":    {strings.Repeat("{}\n", 1001), "application/x-ndjson", 413, "PAYLOAD_TOO_LARGE"},
		"too long":          {strings.Repeat(" ", maxBatchBytes) + "[]", "application/json", 413, "PAYLOAD_TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			var headers []string
			if c.contentType != "" {
				headers = []string{"Content-Type", c.contentType}
			}
			wantProblem(t, r.do("POST", "/paid/submit/batch", c.body, headers...), c.status, c.code)
			if len(r.submitted) != 0 {
				t.Errorf("submitted %+v", r.submitted)
			}
		})
	}
	wantProblem(t, newRooms(t).json("POST", "/paid/submit/batch", `[{}]`, "Idempotency-Key", "k"), 400, "INVALID_REQUEST",
		"Idempotency-Key")
	wantProblem(t, newRooms(t).json("POST", "/paid/submit/batch", `[{}]`, "Content-Encoding", "gzip"), 415,
		"UNSUPPORTED_MEDIA_TYPE")
	if rec := newRooms(t).json("POST", "/paid/submit/batch", `[`+strings.Repeat(`{},`, 999)+`{}]`); rec.Code != 202 ||
		strings.Count(rec.Body.String(), "PENDING") != 1000 {
		t.Errorf("a thousand: %d", rec.Code)
	}
}

// All batches together hold a bounded amount of memory, and release it.
func TestBatch_MemoryIsBounded(t *testing.T) {
	r := newRooms(t)
	a := &api{Deps: r.deps.withDefaults(), bodyLimit: 1000 + bodyMargin}
	r.Handler = a.handler()
	a.batches.Store(batchMemory - 3)
	wantProblem(t, r.json("POST", "/paid/submit/batch", `[{}]`), 503, "SYSTEM_UNHEALTHY")
	if held := a.batches.Load(); held != batchMemory-3 {
		t.Errorf("%d bytes are still held", held-batchMemory+3)
	}
	a.batches.Store(0)
	if rec := r.json("POST", "/paid/submit/batch", `[{}]`); rec.Code != 202 || a.batches.Load() != 0 {
		t.Errorf("%d, %d bytes are still held", rec.Code, a.batches.Load())
	}
}
