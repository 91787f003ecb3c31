package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// golden is the seed's sample, byte for byte.
const golden = `{"apiResponseData":{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","currentJobStatus":"PENDING"},` +
	`"timestamp":"2026-05-01T11:31:57.961931Z"}`

func TestSubmit(t *testing.T) {
	t.Attr("proves", "S2-E1 S2-E2 S2-E3")
	for path, tier := range map[string]job.Tier{"/paid/submit": job.Paid, "/unpaid/submit": job.Unpaid,
		"/public/submit": job.Public} {
		t.Run(string(tier), func(t *testing.T) {
			r := newRooms(t)
			rec := r.do("POST", path, "")
			if rec.Code != 202 || rec.Body.String() != golden {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			wantHeader(t, rec, "Location", "/result/poll?jobId="+string(knownID))
			wantHeader(t, rec, "Retry-After", "1")
			wantHeader(t, rec, "Content-Type", "application/json")
			if len(r.submitted) != 1 {
				t.Fatalf("%d submits", len(r.submitted))
			}
			if s := r.submitted[0]; s.Tier != tier || s.Type != "SIMULATION" || s.Payload != nil || s.MaxRetries != -1 ||
				s.ID != "" || s.TraceID != rec.Header().Get("X-Trace-Id") {
				t.Errorf("submitted %+v", s)
			}
		})
	}
}

func TestSubmit_ATimestampAlwaysHasSixDigits(t *testing.T) {
	r := newRooms(t)
	r.deps.Now = func() time.Time { return time.Date(2026, 5, 1, 13, 0, 0, 0, time.FixedZone("", 7200)) }
	r.Handler = NewHandler(r.deps)
	if rec := r.do("POST", "/paid/submit", ""); !strings.Contains(rec.Body.String(),
		`"timestamp":"2026-05-01T11:00:00.000000Z"`) {
		t.Error(rec.Body)
	}
}

func TestSubmit_TakesWhatTheBodySays(t *testing.T) {
	t.Attr("proves", "S2-G9")
	odd := "{ \"b\" : [1.0,2e3 ,\"\\u00e9é\"],\n \"a\":null}"
	quoted := `"\"` + strings.Repeat("[:", 400) + `"` // a string has no depth and no members
	for body, want := range map[string]job.Submission{
		`{"payload":` + quoted + `}`:                     {Type: "SIMULATION", MaxRetries: -1, Payload: []byte(quoted)},
		`{}`:                                             {Type: "SIMULATION", MaxRetries: -1},
		" \r\n\t":                                        {Type: "SIMULATION", MaxRetries: -1},
		`{"type":"PAIR","payload":{"A":1}}`:              {Type: "PAIR", MaxRetries: -1, Payload: []byte(`{"A":1}`)},
		`{"maxRetries":0}`:                               {Type: "SIMULATION", MaxRetries: 0},
		`{"maxRetries":5}`:                               {Type: "SIMULATION", MaxRetries: 5},
		`{"payload":null,"type":"SIMULATION"}`:           {Type: "SIMULATION", MaxRetries: -1},
		`{"type":null,"maxRetries":null}`:                {Type: "SIMULATION", MaxRetries: -1},
		`{"payload":` + odd + ` }`:                       {Type: "SIMULATION", MaxRetries: -1, Payload: []byte(odd)},
		`{"payload" : "x" , "type":"SIMULATION"}` + "\n": {Type: "SIMULATION", MaxRetries: -1, Payload: []byte(`"x"`)},
		`{"payload":"` + strings.Repeat("x", 998) +
			`"}`: {Type: "SIMULATION", MaxRetries: -1, Payload: []byte(`"` + strings.Repeat("x", 998) + `"`)},
	} {
		r := newRooms(t)
		if rec := r.post(body); rec.Code != 202 {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			continue
		}
		got := r.submitted[0]
		if got.Type != want.Type || got.MaxRetries != want.MaxRetries || string(got.Payload) != string(want.Payload) ||
			(got.Payload == nil) != (want.Payload == nil) {
			t.Errorf("%s: submitted %+v", body, got)
		}
	}
}

// waits is a refusal that says when to come again, like admission's.
type waits struct {
	error
	in time.Duration
}

func (w waits) Unwrap() error          { return w.error }
func (w waits) RetryIn() time.Duration { return w.in }

func refusing(t *testing.T, err error) *rooms {
	r := newRooms(t)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return job.Accepted{}, err }
	return r
}

func TestUnhealthy(t *testing.T) {
	t.Attr("proves", "S2-E4")
	for in, want := range map[time.Duration]string{0: "1", 100 * time.Millisecond: "1", 1001 * time.Millisecond: "2",
		4 * time.Second: "4"} {
		rec := refusing(t, waits{fmt.Errorf("submit: %w", job.ErrUnhealthy), in}).do("POST", "/public/submit", "")
		body := wantProblem(t, rec, 503, "SYSTEM_UNHEALTHY")
		if body["message"] != "System is currently unavailable due to high load. Please try again later." {
			t.Errorf("message %q", body["message"])
		}
		wantHeader(t, rec, "Retry-After", want)
	}
}

func TestQueueFull(t *testing.T) {
	t.Attr("proves", "S2-E5")
	rec := refusing(t, job.ErrQueueFull).do("POST", "/unpaid/submit", "")
	body := wantProblem(t, rec, 503, "QUEUE_FULL")
	if body["message"] != "Request cannot be accepted at the moment due to high load. Please try again later." {
		t.Errorf("message %q", body["message"])
	}
	wantHeader(t, rec, "Retry-After", "1")
}

func TestSubmit_OutcomeUnknownSaysTheID(t *testing.T) {
	r := newRooms(t)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		return job.Accepted{ID: knownID}, job.ErrFateUnknown
	}
	rec := r.post(`{}`)
	if body := wantProblem(t, rec, 504, "OUTCOME_UNKNOWN"); body["jobId"] != string(knownID) {
		t.Errorf("jobId %v", body["jobId"])
	}
	wantHeader(t, rec, "Location", "/result/poll?jobId="+string(knownID))
}

func TestSubmit_InternalCausesStayInside(t *testing.T) {
	r := refusing(t, errors.New("dial tcp 10.0.0.7:6379: password hunter2"))
	rec := r.post(`{}`)
	wantProblem(t, rec, 500, "INTERNAL")
	if strings.Contains(rec.Body.String(), "hunter2") || !strings.Contains(r.log.String(), "hunter2") ||
		!strings.Contains(r.log.String(), rec.Header().Get("X-Trace-Id")) {
		t.Errorf("answer %s, log %s", rec.Body, &r.log)
	}
}

func TestSubmit_AClientThatLeftIsNoError(t *testing.T) {
	t.Attr("proves", "A30")
	r := newRooms(t)
	ctx, leave := context.WithCancel(t.Context())
	r.submit = func(ctx context.Context, _ job.Submission) (job.Accepted, error) {
		leave()
		return job.Accepted{}, ctx.Err()
	}
	h := r.Handler
	r.Handler = withContext(ctx, h)
	if rec := r.do("POST", "/paid/submit", ""); rec.Code != gone || strings.Contains(r.log.String(), "ERROR") {
		t.Errorf("%d, log %s", rec.Code, &r.log)
	}
}

func TestSubmit_TraceID(t *testing.T) {
	parent, id := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"
	for name, c := range map[string]struct {
		headers []string
		want    string // "" = accepted
	}{
		"none":                  {nil, ""},
		"traceparent":           {[]string{"traceparent", parent}, id},
		"its own":               {[]string{"X-Trace-Id", "order-7_a.B"}, "order-7_a.B"},
		"traceparent first":     {[]string{"X-Trace-Id", "mine", "traceparent", parent}, id},
		"bad parent, own":       {[]string{"X-Trace-Id", "mine", "traceparent", "00-zz"}, "mine"},
		"zero parent":           {[]string{"traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, ""},
		"capital parent":        {[]string{"traceparent", strings.ToUpper(parent)}, ""},
		"version ff":            {[]string{"traceparent", "ff" + parent[2:]}, ""},
		"longer, version 00":    {[]string{"traceparent", parent + "-x"}, ""},
		"longer, later version": {[]string{"traceparent", "01" + parent[2:] + "-x"}, id},
		"two parents":           {[]string{"traceparent", parent, "traceparent", parent}, ""},
		"empty":                 {[]string{"X-Trace-Id", ""}, ""},
		"too long":              {[]string{"X-Trace-Id", strings.Repeat("a", 65)}, ""},
		"A54 line break":        {[]string{"X-Trace-Id", "a\r\nSet-Cookie: x"}, ""},
		"A54 escape":            {[]string{"X-Trace-Id", "a\x1b[31m"}, ""},
		"A58 braces":            {[]string{"X-Trace-Id", "{tierq:0}*"}, ""},
		"not ASCII":             {[]string{"X-Trace-Id", "trace-é"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			got := r.do("POST", "/paid/submit", "", c.headers...).Header().Get("X-Trace-Id")
			if c.want == "" && (len(got) != 32 || !hexadecimal(got)) || c.want != "" && got != c.want {
				t.Errorf("trace id %q, want %q", got, c.want)
			}
			if r.submitted[0].TraceID != got {
				t.Errorf("stored %q, echoed %q", r.submitted[0].TraceID, got)
			}
		})
	}
}

func TestSubmit_WhenAndWhoHears(t *testing.T) {
	hour := aMoment.Truncate(time.Second).Add(time.Hour)
	for body, want := range map[string]struct {
		delay    time.Duration
		runAt    time.Time
		callback string
		status   string
		retry    string
	}{
		`{}`:                                      {status: "PENDING", retry: "3"},
		`{"delaySeconds":0}`:                      {status: "PENDING", retry: "3"},
		`{"delaySeconds":30}`:                     {delay: 30 * time.Second, status: "SCHEDULED", retry: "30"},
		`{"delaySeconds":1.0005}`:                 {delay: 1001 * time.Millisecond, status: "SCHEDULED", retry: "3"},
		`{"delaySeconds":31536000}`:               {delay: maxAhead, status: "SCHEDULED", retry: "31536000"},
		`{"runAt":"2026-05-01T12:31:57Z"}`:        {runAt: hour, status: "SCHEDULED", retry: "3600"},
		`{"runAt":"2026-05-01T14:31:57+02:00"}`:   {runAt: hour, status: "SCHEDULED", retry: "3600"},
		`{"runAt":"2020-01-01T00:00:00Z"}`:        {status: "PENDING", retry: "3"},
		`{"runAt":null,"delaySeconds":null}`:      {status: "PENDING", retry: "3"},
		`{"callbackUrl":"https:\/\/x/a?b=c"}`:     {callback: "https://x/a?b=c", status: "PENDING", retry: "3"},
		`{"runAt":"2027-05-01T11:31:57.961931Z"}`: {runAt: aMoment.Add(maxAhead), status: "SCHEDULED", retry: "31536000"},
	} {
		r := newRooms(t)
		r.hint = 2500 * time.Millisecond
		rec := r.post(body)
		if rec.Code != 202 || !strings.Contains(rec.Body.String(), `"currentJobStatus":"`+want.status+`"`) {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			continue
		}
		wantHeader(t, rec, "Retry-After", want.retry)
		if s := r.submitted[0]; s.Delay != want.delay || !s.RunAt.Equal(want.runAt) || s.CallbackURL != want.callback {
			t.Errorf("%s: submitted %+v", body, s)
		}
	}
	r := newRooms(t)
	r.deps.CheckURL = nil
	r.Handler = NewHandler(r.deps)
	wantProblem(t, r.post(`{"callbackUrl":"https://x/"}`), 400, "INVALID_REQUEST", "callbackUrl")
	wantProblem(t, r.do("POST", "/paid/submit?wait=1", ""), 400, "INVALID_REQUEST", "wait")
}

// The span of a submit is a child of the caller's span, ends with the submit's result, and its id is stored with
// the job.
func TestSubmit_Trace(t *testing.T) {
	t.Attr("proves", "S4-O2")
	r := newRooms(t)
	var heard []string
	r.deps.Trace = func(_ context.Context, tier job.Tier, trace, parent string) (string, func(job.ID, error)) {
		return "00f067aa0ba902b8", func(id job.ID,
			err error) {
			heard = append(heard, fmt.Sprint(tier, trace, parent, id, err))
		}
	}
	r.Handler = NewHandler(r.deps)
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	r.do("POST", "/paid/submit", "", "traceparent", "00-"+trace+"-"+parent+"-01")
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return job.Accepted{}, job.ErrQueueFull }
	r.do("POST", "/public/submit", "", "X-Trace-Id", "mine")
	r.json("POST", "/paid/submit/batch", `[{},{}]`, "X-Trace-Id", "all")
	want := []string{"PAID" + trace + parent + string(knownID) + "<nil>", "PUBLICmine" + fmt.Sprint("", job.ErrQueueFull),
		"PAIDall<nil>"}
	if strings.Join(heard, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", heard, want)
	}
	for _, s := range r.submitted {
		if s.SpanID != "00f067aa0ba902b8" {
			t.Errorf("submitted %+v", s)
		}
	}
}
