package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
)

// Schedules are read as the server writes them, and sent as it reads them.
func TestSchedules(t *testing.T) {
	t.Parallel()
	const nightly = `{"name":"nightly","cron":"30 2 * * *","everySeconds":null,"timezone":"UTC",` +
		`"start":"2026-05-01T11:31:57Z","end":null,"jitterSeconds":60,"overlap":"one","catchUp":"all","job":{"tier":"PAID",` +
		`"type":"REPORT","payload":{"a":1},"queue":"films","key":"a b","maxRetries":2,"maxProcessingSeconds":90,` +
		`"callbackUrl":"https://x.example/","expiresIn":1.5},"owner":"k1",` +
		`"paused":{"since":"2026-05-01T11:31:57Z","by":"ada",` +
		`"reason":"a fire"},"lastOccurrence":"2026-05-01T11:31:57Z","next":["2026-05-01T11:31:57Z"],"version":3,` +
		`"createdAt":"2026-05-01T11:31:57Z","changedAt":"2026-05-01T11:31:57Z",` +
		`"runs":[{"occurrence":"2026-05-01T11:31:57Z",` +
		`"through":"2026-05-01T11:31:57Z","status":"FIRED","jobId":"j1","living":true,"asked":true,"missed":null,` +
		`"reason":null,"detail":null,"at":"2026-05-01T11:31:57Z"},{"occurrence":"2026-05-01T11:31:57Z",` +
		`"through":"2026-05-01T11:31:57Z","status":"MISSED","jobId":null,"living":false,"asked":false,"missed":7,` +
		`"reason":"FULL","detail":"the queue is full","at":"2026-05-01T11:31:57Z"}]}`
	at, retries := time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC), 2
	want := client.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Timezone: "UTC", Start: at, Jitter: time.Minute, Overlap: client.OverlapOne,
		CatchUp: client.CatchUpAll, Owner: "k1", Paused: &client.SchedulePause{Since: at, By: "ada", Reason: "a fire"},
		Last: at, Next: []time.Time{at}, Version: 3,
		Job: client.ScheduledJob{
			Tier: client.Paid, Type: "REPORT", Payload: json.RawMessage(`{"a":1}`), Queue: "films", Key: "a b",
			MaxRetries: &retries, MaxRun: 90 * time.Second, Callback: "https://x.example/", ExpiresIn: 1500 * time.Millisecond,
		},
		Runs: []client.ScheduleRun{
			{Occurrence: at, Through: at, JobID: "j1", Living: true, Asked: true, At: at},
			{Occurrence: at, Through: at, Missed: 7, Reason: "FULL", Detail: "the queue is full", At: at},
		},
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		asked = append(asked, strings.Join(strings.Fields(strings.Join([]string{r.Method, r.URL.RequestURI(),
			r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), key[:min(len(key), 3)], string(body)}, " ")), " "))
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(r.URL.Path, "/run"):
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"jobId":"j2","status":"PENDING","schedule":"nightly"}`)
		case strings.HasSuffix(r.URL.Path, "/next"):
			_, _ = io.WriteString(w, `{"items":["2026-05-01T11:31:57Z"]}`)
		case r.URL.Path == "/admin/schedules":
			_, _ = io.WriteString(w, `{"items":[`+nightly+`]}`)
		default:
			_, _ = io.WriteString(w, nightly)
		}
	}))
	defer server.Close()
	c, ctx := client.New(server.URL), t.Context()
	check := func(got client.Schedule, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	all, err := c.Schedules(ctx)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	check(all[0], nil)
	check(c.Schedule(ctx, "nightly"))
	check(c.PutSchedule(ctx, want, want.ETag()))
	check(c.TrySchedule(ctx, want, want.ETag()))
	check(c.PutSchedule(ctx, client.Schedule{Name: "a", Every: time.Hour, End: at,
		Job: client.ScheduledJob{Type: "A"}}, "*"))
	check(c.PauseSchedule(ctx, "nightly", "a fire"))
	check(c.ResumeSchedule(ctx, "nightly"))
	for _, key := range []string{"mine", ""} {
		if id, err := c.RunSchedule(ctx, "nightly", key); err != nil || id != "j2" {
			t.Errorf("%s, %v", id, err)
		}
	}
	for _, from := range []time.Time{{}, at} {
		if next, err := c.NextOfSchedule(ctx, "nightly", from, 3); err != nil || !reflect.DeepEqual(next, want.Next) {
			t.Errorf("%v, %v", next, err)
		}
	}
	if err := c.DeleteSchedule(ctx, "a/b"); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(want)
	var again client.Schedule
	if err != nil || json.Unmarshal(text, &again) != nil {
		t.Fatal(err)
	}
	check(again, nil)
	const body = `{"cron":"30 2 * * *","timezone":"UTC","start":"2026-05-01T11:31:57Z",` +
		`"jitterSeconds":60,"overlap":"one",` +
		`"catchUp":"all","job":{"tier":"PAID","type":"REPORT","payload":{"a":1},"queue":"films","key":"a b","maxRetries":2,` +
		`"maxProcessingSeconds":90,"callbackUrl":"https://x.example/","expiresIn":1.5}}`
	asked[7] = asked[7][:len("POST /admin/schedules/nightly/run mine")-1]
	asked[8] = asked[8][:len("POST /admin/schedules/nightly/run ")]
	if got := []string{
		"GET /admin/schedules", "GET /admin/schedules/nightly", `PUT /admin/schedules/nightly "3" ` + body,
		`PUT /admin/schedules/nightly?dryRun=true "3" ` + body,
		`PUT /admin/schedules/a * {"everySeconds":3600,"end":"2026-05-01T11:31:57Z","job":{"type":"A"}}`,
		`POST /admin/schedules/nightly/pause {"reason":"a fire"}`, "POST /admin/schedules/nightly/resume",
		"POST /admin/schedules/nightly/run min", "POST /admin/schedules/nightly/run ",
		"GET /admin/schedules/nightly/next?n=3", "GET /admin/schedules/nightly/next?from=2026-05-01T11%3A31%3A57Z&n=3",
		"DELETE /admin/schedules/a%2Fb",
	}; !reflect.DeepEqual(asked, got) {
		t.Errorf("%q", asked)
	}
}
