package client

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

	"github.com/tierq/tierq/client/internal/fake"
)

const aPlan = `{"tier":"GOLD","priority":1,"maxRetries":5,"heartbeatTimeoutMs":15000,"maxProcessingTimeMs":50000,` +
	`"share":100,"maxWaitMs":90000,` +
	`"backoff":{"baseMs":2000,"factor":2,"capMs":300000,"jitter":0.1},"typeBackoff":{"REPORT":{"baseMs":0,"factor":1,` +
	`"capMs":0,"jitter":0}},"version":3}`

func TestPlan_IsAsOnTheWire(t *testing.T) {
	var p Plan
	if err := json.Unmarshal([]byte(aPlan), &p); err != nil {
		t.Fatal(err)
	}
	want := Plan{
		Tier: "GOLD", Priority: 1, MaxRetries: 5, HeartbeatTimeout: 15 * time.Second, MaxProcessingTime: 50 * time.Second,
		MaxWait: 90 * time.Second, Share: 100,
		Backoff:     Backoff{Base: 2 * time.Second, Factor: 2, Cap: 5 * time.Minute, Jitter: 0.1},
		TypeBackoff: map[string]Backoff{"REPORT": {Factor: 1}}, Version: 3,
	}
	if !reflect.DeepEqual(p, want) || p.ETag() != `"3"` {
		t.Errorf("%+v", p)
	}
	if text, err := json.Marshal(p); err != nil || string(text) != aPlan {
		t.Errorf("%s, %v", text, err)
	}
	// Without maxCrashes a crash counts as a retry; with 0 the first one is the end.
	strict := strings.Replace(aPlan, `"share":100,`, `"share":100,"maxCrashes":0,`, 1)
	if err := json.Unmarshal([]byte(strict), &p); err != nil || p.MaxCrashes == nil || *p.MaxCrashes != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if text, err := json.Marshal(p); err != nil || string(text) != strict {
		t.Errorf("%s, %v", text, err)
	}
	p.MaxCrashes = new(3)
	null := strings.Replace(strict, `"maxCrashes":0`, `"maxCrashes":null`, 1)
	if err := json.Unmarshal([]byte(null), &p); err != nil || p.MaxCrashes != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTiers(t *testing.T) {
	s, c := newServer(t)
	answers(s, "GET /admin/tiers", 200, `{"items":[`+aPlan+`]}`)
	plans, err := c.Tiers(soon(t))
	if err != nil || len(plans) != 1 {
		t.Fatalf("%+v, %v", plans, err)
	}
	var asked []string
	s.Handle("PUT /admin/tiers/GOLD", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var members map[string]any
		_ = json.Unmarshal(body, &members)
		_, tier := members["tier"]
		_, version := members["version"]
		asked = append(asked, fmt.Sprint(r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), len(members), tier,
			version))
		if m := r.Header.Get("If-Match"); m != "" && m != `"3"` || r.Header.Get("If-None-Match") != "" {
			fake.Refuse(w, http.StatusPreconditionFailed, "PRECONDITION_FAILED")
			return
		}
		_, _ = io.WriteString(w, aPlan)
	})
	plan := plans[0]
	if stored, err := c.SetTier(soon(t), "gold", plan, plan.ETag()); err != nil || stored.Version != 3 {
		t.Errorf("%+v, %v", stored, err)
	}
	if _, err := c.SetTier(soon(t), "GOLD", plan, `"2"`); !errors.Is(err, ErrChanged) {
		t.Errorf("an old version: %v", err)
	}
	if _, err := c.SetTier(soon(t), "GOLD", plan, ""); err != nil {
		t.Errorf("whatever was there: %v", err)
	}
	if _, err := c.CreateTier(soon(t), "GOLD", plan); !errors.Is(err, ErrChanged) {
		t.Errorf("it exists: %v", err)
	}
	if want := `["3"8 false false "2"8 false false 8 false false *8 false false]`; fmt.Sprint(asked) != want {
		t.Errorf("asked %v", asked)
	}
	// The client does not repeat a change whose answer was lost. The repeat would be refused as a conflict, or undo
	// another operator's change.
	for _, etag := range []string{`"3"`, ""} {
		first := len(s.Seen())
		s.Faults(firstOnly(first+1, fake.Fault{DropAfter: true}))
		if _, err := c.SetTier(soon(t), "GOLD", plan, etag); !errors.Is(err, ErrOutcomeUnknown) || len(s.Seen()) != first+1 {
			t.Errorf("lost, with the tag %s: %v after %d requests", etag, err, len(s.Seen())-first)
		}
	}
}

func TestStats(t *testing.T) {
	s, c := newServer(t)
	const text = `{"tiers":[{"tier":"PAID","depth":3,"scheduled":1,"oldestAgeSeconds":1.5,"inFlight":2,` +
		`"submittedPerSecond":0.5,"finishedPerSecond":0.25,` +
		`"waitSeconds":{"p50":0.1,"p95":0.2,"p99":0.3},"runSeconds":{"p50":1,"p95":2,"p99":3},"submitted":9,"refused":1,` +
		`"completed":5,"failed":1,"cancelled":1,"retried":2}],` +
		`"capacity":{"used":4,"limit":10000},"gate":{"open":true,"failures":0,"reason":""},"outbox":{"jobs":1,"bytes":99},` +
		`"watches":[{"name":"crashed","delaySeconds":3}],` +
		`"workers":[{"name":"n","host":"h","pid":7,"version":"v1","slots":16,"running":2,"stuck":0,` +
		`"startedAt":"2026-05-01T11:31:57Z","seenAt":"2026-05-01T11:31:58Z"}],` +
		`"drainPerSecond":12.5,"timestamp":"2026-05-01T11:31:57.961931Z","new":1}`
	answers(s, "GET /api/stats", 200, text)
	got, err := c.Stats(soon(t))
	if err != nil || len(got.Tiers) != 1 || len(got.Workers) != 1 || len(got.Watches) != 1 || string(got.Raw) != text {
		t.Fatalf("%+v, %v", got, err)
	}
	want := TierStats{
		Tier: Paid, Depth: 3, Scheduled: 1, OldestAgeSeconds: 1.5, InFlight: 2, SubmittedPerSecond: 0.5,
		FinishedPerSecond: 0.25,
		WaitSeconds:       Percentiles{0.1, 0.2, 0.3}, RunSeconds: Percentiles{1, 2, 3}, Submitted: 9, Refused: 1,
		Completed: 5,
		Failed:    1, Cancelled: 1, Retried: 2,
	}
	if got.Tiers[0] != want || got.Capacity != (Capacity{4, 10000}) || !got.Gate.Open || got.Outbox != (Outbox{1, 99}) ||
		got.DrainPerSecond != 12.5 ||
		got.Workers[0].PID != 7 || got.Watches[0] != (WatchStats{"crashed", 3}) {
		t.Errorf("%+v", got)
	}
}

func TestWhy(t *testing.T) {
	s, c := newServer(t)
	answers(s, "GET /api/jobs/"+unknownID+"/why", 200,
		`{"jobId":"`+unknownID+`","status":"PENDING","position":3,"aheadByTier":{"PAID":3},"runningByTier":null,`+
			`"line":{"key":"a b","owner":null,"ahead":3,"running":2,"parked":true,"until":"2026-05-01T11:31:57Z"},`+
			`"freeSlots":0,"workers":1,"gate":{"open":false,"reason":"redis"},"etaSeconds":null,"runAt":null,`+
			`"reasons":["3 PAID jobs are ahead"]}`)
	w, err := c.Why(soon(t), unknownID)
	if err != nil || *w.Position != 3 || w.AheadByTier[Paid] != 3 || w.Workers != 1 || w.Gate.Reason != "redis" ||
		w.ETASeconds != nil || w.Line == nil || *w.Line != (LinePlace{LineKey{Key: "a b"}, 3, 2, true,
		time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC)}) || len(w.Reasons) != 1 || w.Raw == nil {
		t.Errorf("%+v, %v", w, err)
	}
}

// The answer DOWN or OUT_OF_SERVICE is not an error.
func TestHealth(t *testing.T) {
	s, c := newServer(t)
	answers(s, "GET /actuator/health", 503,
		`{"status":"DOWN","components":{"redis":{"status":"DOWN"},"job":{"status":"UP","details":{"pendingJobs":3}}}}`)
	h, err := c.Health(soon(t))
	if err != nil || h.Status != "DOWN" || h.Components["redis"].Status != "DOWN" ||
		string(h.Components["job"].Details) != `{"pendingJobs":3}` || h.Raw == nil {
		t.Errorf("%+v, %v", h, err)
	}
	asked := answers(s, "GET /readyz", 503,
		`{"status":"OUT_OF_SERVICE","timestamp":"x","checks":[{"name":"gate","status":"DOWN","detail":"closed"}]}`)
	r, err := c.Ready(soon(t))
	if err != nil || r.Status != "OUT_OF_SERVICE" || len(r.Checks) != 1 || r.Checks[0].Detail != "closed" ||
		len(*asked) != 1 || (*asked)[0] != "verbose=" {
		t.Errorf("%+v, %v, asked %v", r, err, *asked)
	}
}
