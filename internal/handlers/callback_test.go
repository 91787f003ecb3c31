package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func ended(status job.Status) job.Outcome {
	o := job.Outcome{Job: job.Job{
		ID: theJob, Generation: 2, Tier: job.Public, Type: "SIMULATION", Owner: "the-owner", TraceID: "the-trace",
		Status:  status,
		Attempt: 4, RetryCount: 1, MaxRetries: 1,
		Options:   job.Options{CallbackURL: "https://example.com/done?a=b&c", SpanID: "00f067aa0ba902b7"},
		ArrivedAt: time.Date(2026, 5, 1, 11, 0, 0, 0, time.UTC), EndedAt: time.Date(2026, 5, 1, 11, 0, 1, 5e6, time.UTC),
	}}
	if status == job.Completed {
		o.Result = []byte(`{"n":1e400,"t":"<b>"}`)
	} else {
		o.Cause, o.LastError = job.HandlerError, "boom \xff"
	}
	return o
}

func eventOf(t *testing.T, o job.Outcome) (id, url string, e map[string]any) {
	t.Helper()
	var c calling
	if err := json.Unmarshal(Callback(o), &c); err != nil {
		t.Fatal(err)
	}
	return c.ID, c.URL, decoded(t, c.Event)
}

func decoded(t *testing.T, text []byte) (e map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// A dead letter's event has the job's id, the reason, the final count of retries and the time.
func TestCallback(t *testing.T) {
	t.Attr("proves", "S4-M1 S4-M3 S4-M4")
	for _, status := range []job.Status{job.Failed, job.NeedDiscard} {
		id, url, e := eventOf(t, ended(status))
		want := map[string]any{
			"type": "job.failed", "timestamp": "2026-05-01T11:00:01.005000Z", "data": map[string]any{
				"jobId": string(theJob), "generation": 2.0, "status": "FAILED", "tier": "PUBLIC", "type": "SIMULATION",
				"retryCount": 1.0,
				"maxRetries": 1.0,
				"arrivedAt":  "2026-05-01T11:00:00.000000Z", "completedAt": nil, "failedAt": "2026-05-01T11:00:01.005000Z",
				"result":       nil,
				"failureCause": "HANDLER_ERROR", "lastError": "boom \uFFFD", "traceId": "the-trace",
				"owner": "the-owner",
			},
		}
		if id != string(theJob)+"_2" || url != "https://example.com/done?a=b&c" || !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %s %s\n%v, want\n%v", status, id, url, e, want)
		}
	}
	late := ended(job.Expired)
	late.Generation, late.Attempt, late.Cause, late.LastError = 1, 0, "", ""
	_, _, told := eventOf(t, late)
	data := told["data"].(map[string]any)
	if told["type"] != "job.expired" || told["timestamp"] != "2026-05-01T11:00:01.005000Z" ||
		data["status"] != "EXPIRED" || data["completedAt"] != nil || data["failedAt"] != nil || data["failureCause"] != nil ||
		data["lastError"] != nil {
		t.Errorf("expired: %v", told)
	}
	o := ended(job.Completed)
	var c calling
	if err := json.Unmarshal(Callback(o), &c); err != nil {
		t.Fatal(err)
	}
	var e struct {
		Type string
		Data struct {
			Status, CompletedAt string
			FailedAt            *string
			Result              json.RawMessage
			LastError           *string
		}
	}
	if err := json.Unmarshal(c.Event, &e); err != nil || e.Type != "job.completed" || e.Data.Status != "COMPLETED" ||
		e.Data.CompletedAt != "2026-05-01T11:00:01.005000Z" ||
		e.Data.FailedAt != nil || e.Data.LastError != nil || string(e.Data.Result) != `{"n":1e400,"t":"\u003cb\u003e"}` {
		t.Errorf("completed: %s, %v", c.Event, err)
	}
	for _, result := range []string{"", "{"} { // absent, and invalid JSON
		o.Result = []byte(result)
		if _, _, e := eventOf(t, o); e["data"].(map[string]any)["result"] != nil {
			t.Errorf("result %q: %v", result, e)
		}
	}
}

func TestCallbackJob(t *testing.T) {
	t.Attr("proves", "S4-M4")
	o := ended(job.Failed)
	s := CallbackJob(o)
	if s.Tier != job.Public || s.Type != "CALLBACK" || s.Owner != "the-owner" || s.TraceID != "the-trace" ||
		s.SpanID != "00f067aa0ba902b7" || s.CallbackURL != "" ||
		s.MaxRetries != 8 || s.Generation != 1 || !s.RunAt.IsZero() || string(s.Payload) != string(Callback(o)) {
		t.Errorf("job %+v", s)
	}
	if again := CallbackJob(o); !reflect.DeepEqual(again, s) {
		t.Errorf("the same outcome made %+v, then %+v", s, again)
	}
	v7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[job.ID]bool{theJob: true}
	for generation := 1; generation <= 3; generation++ {
		for _, id := range []job.ID{theJob, "019de340-01fe-7a58-be69-567cd7d6b7d5", "019de340-01ff-7a58-be69-567cd7d6b700",
			"ffffffff-ffff-7fff-bfff-ffffffffffff"} {
			o.ID, o.Generation = id, generation
			got := CallbackJob(o).ID
			if parsed, err := job.ParseID(string(got)); err != nil || parsed != got || !v7.MatchString(string(got)) {
				t.Errorf("%s is no UUIDv7: %v", got, err)
			}
			if got.Partition() != id.Partition() || got[:13] != id[:13] {
				t.Errorf("%s for %s: another partition or time", got, id)
			}
			if seen[got] {
				t.Errorf("%s twice", got)
			}
			seen[got] = true
		}
	}
}

func TestCallbackIsSent(t *testing.T) {
	t.Attr("proves", "S4-M3")
	status := http.StatusOK
	url, last := listen(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	r := outgoingTypes(wire{})
	if err := r.Check("CALLBACK", nil); !errors.Is(err, job.ErrUnknownType) {
		t.Errorf("a user's CALLBACK: %v", err)
	}
	o := ended(job.Failed)
	o.CallbackURL = url
	payload := Callback(o)
	result, err := r.Run(running(t), "CALLBACK", payload)
	if err != nil || string(result) != `{"status":200}` {
		t.Fatalf("%s, %v", result, err)
	}
	first := last()
	status = http.StatusInternalServerError
	if _, err := r.Run(running(t), "CALLBACK", payload); err == nil || handler.Judge(err).Permanent {
		t.Errorf("a 500: %v, want a retry", err)
	}
	again := last()
	if id := first.header.Get("Webhook-Id"); id != string(theJob)+"_2" || again.header.Get("Webhook-Id") != id ||
		first.body != again.body {
		t.Errorf("first %+v, again %+v", first, again)
	}
	e := decoded(t, []byte(first.body))
	if e["type"] != "job.failed" || first.method != "POST" || first.header.Get("Content-Type") != "application/json" ||
		first.header.Get("X-Job-Attempt") != "3" {
		t.Errorf("sent %+v", first)
	}
	status = http.StatusGone
	if _, err := r.Run(running(t), "CALLBACK", payload); !handler.Judge(err).Permanent {
		t.Errorf("a 410: %v, want no retry", err)
	}
}
