package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestStats(t *testing.T) {
	r := newRooms(t)
	r.stats = func() (Stats, error) {
		return Stats{
			Tiers: []TierStats{{
				Tier: job.Paid, Depth: 3, Scheduled: 1, OldestAgeSeconds: 1.5, InFlight: 2, SubmittedPerSecond: 0.5,
				FinishedPerSecond: 0.25,
				WaitSeconds:       Percentiles{0.1, 0.2, 0.3}, RunSeconds: Percentiles{1, 2, 3}, Submitted: 9, Refused: 1,
				Completed: 5,
				Failed:    1, Cancelled: 1, Retried: 2,
			}},
			Queues: []QueueStats{
				{Queue: "main", Depth: 3, Scheduled: 1, InFlight: 2, Workers: 1},
				{Queue: "films", Paused: &aMoment},
			},
			Capacity: Capacity{3, 10000}, Gate: Gate{Open: true}, Outbox: Outbox{4, 1000}, Watches: []WatchStats{{"crashed", 3}},
			Workers: []job.WorkerInfo{{Name: "host-1", Kind: job.ServerWorker, State: job.WorkerQuiet, Host: "host", PID: 7,
				Version: "1", Language: "go", Slots: 16, Running: 2, StartedAt: aMoment, SeenAt: aMoment,
				Queues: []string{"main", "films"}}}, DrainPerSecond: 0.25,
		}, nil
	}
	wantJSON(t, r.do("GET", "/api/stats", ""), 200,
		`{"tiers":[{"tier":"PAID","depth":3,"scheduled":1,"oldestAgeSeconds":1.5,"inFlight":2,"submittedPerSecond":0.5,`+
			`"finishedPerSecond":0.25,`+
			`"waitSeconds":{"p50":0.1,"p95":0.2,"p99":0.3},"runSeconds":{"p50":1,"p95":2,"p99":3},"submitted":9,"refused":1,`+
			`"completed":5,"failed":1,"cancelled":1,"expired":0,"retried":2}],`+
			`"queues":[{"queue":"main","depth":3,"scheduled":1,"inFlight":2,"workers":1,"paused":null},{"queue":"films",`+
			`"depth":0,"scheduled":0,"inFlight":0,"workers":0,"paused":"2026-05-01T11:31:57.961931Z"}],`+
			`"capacity":{"used":3,"limit":10000},"gate":{"open":true,"failures":0,"reason":""},"outbox":{"jobs":4,`+
			`"bytes":1000},"watches":[{"name":"crashed","delaySeconds":3}],`+
			`"workers":[{"name":"host-1","kind":"server","state":"quiet","host":"host","pid":7,"version":"1","language":"go","slots":16,"running":2,"stuck":0,`+
			`"startedAt":"2026-05-01T11:31:57.961931Z","seenAt":"2026-05-01T11:31:57.961931Z","queues":["main","films"]}],`+
			`"drainPerSecond":0.25,"timestamp":"2026-05-01T11:31:57.961931Z"}`)
	r.stats = func() (Stats, error) { return Stats{}, nil }
	if rec := r.do("GET", "/api/stats", ""); !strings.Contains(rec.Body.String(), `"tiers":[]`) ||
		!strings.Contains(rec.Body.String(), `"workers":[]`) {
		t.Errorf("lists that are empty: %s", rec.Body)
	}
	r.stats = func() (Stats, error) { return Stats{}, job.ErrUnavailable }
	wantProblem(t, r.do("GET", "/api/stats", ""), 503, "SYSTEM_UNHEALTHY")
	wantProblem(t, r.do("GET", "/api/stats?tier=PAID", ""), 400, "INVALID_REQUEST", "tier")
}

func TestWhy(t *testing.T) {
	r := newRooms(t)
	r.why = func() (Why, error) {
		return Why{
			Job: at(job.Pending, 0), Ahead: job.Ahead{Position: 4, ByTier: map[job.Tier]int64{job.Paid: 3, job.Unpaid: 1},
				Running: map[job.Tier]int64{job.Paid: 2}},
			Workers: 1, Gate: Gate{Reason: "the outbox is full"}, Rate: 2,
		}, nil
	}
	wantJSON(t, r.do("GET", "/api"+jobKnown+"/why", ""), 200,
		`{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"PENDING","queue":{"name":"main","paused":null},`+
			`"paused":null,"line":null,`+
			`"position":4,"aheadByTier":{"PAID":3,`+
			`"UNPAID":1},`+
			`"runningByTier":{"PAID":2},"freeSlots":0,"workers":1,"gate":{"open":false,"reason":"the outbox is full"},`+
			`"etaSeconds":3,"runAt":null,"expiresAt":null,`+
			`"reasons":["3 PAID jobs are ahead","1 UNPAID job is ahead","every slot is busy: 2 PAID running","the gate is `+
			`closed: the outbox is full"]}`)
	scheduled := at(job.Scheduled, 0)
	scheduled.RunAt = aMoment
	r.why = func() (Why, error) {
		return Why{Job: scheduled, Gate: Gate{Open: true}, FreeSlots: 3, Workers: 1, Rate: 2}, nil
	}
	wantJSON(t, r.do("GET", "/api"+jobKnown+"/why", ""), 200,
		`{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"SCHEDULED","queue":{"name":"main","paused":null},`+
			`"paused":null,"line":null,`+
			`"position":null,"aheadByTier":{},`+
			`"runningByTier":{},"freeSlots":3,`+
			`"workers":1,"gate":{"open":true,"reason":""},"etaSeconds":null,"runAt":"2026-05-01T11:31:57.961931Z",`+
			`"expiresAt":null,`+
			`"reasons":["it is not due before 2026-05-01T11:31:57Z"]}`)
	r.why = func() (Why, error) { return Why{}, job.ErrNotFound }
	wantProblem(t, r.do("GET", "/api"+jobKnown+"/why", ""), 404, "JOB_NOT_FOUND")
	wantProblem(t, r.do("GET", "/api/jobs/7/why", ""), 400, "INVALID_REQUEST", "id")
}

func TestWhy_Reasons(t *testing.T) {
	open := Gate{Open: true}
	asked, failed, twice := at(job.Processing, 2), at(job.Scheduled, 1), at(job.Scheduled, 2)
	asked.CancelRequested = true
	failed.RetryCount, failed.RunAt = 1, aMoment
	twice.RetryCount, twice.RunAt = 2, aMoment
	slow, cut := at(job.Processing, 2), at(job.NeedDiscard, 2)
	slow.Cause, slow.LastError = job.MaxTimeExceeded, job.MaxTimeText(10*time.Second)+"; half a page"
	cut.Cause, cut.LastError = job.HeartbeatStopped, job.HeartbeatText(5*time.Second)
	films := at(job.Pending, 0)
	films.Queue = "films"
	for name, c := range map[string]struct {
		why  Why
		want []string
	}{
		"next":         {Why{Job: at(job.Pending, 0), Workers: 1, FreeSlots: 1, Gate: open}, []string{"it is next"}},
		"nobody works": {Why{Job: at(job.Pending, 0), Gate: open}, []string{"no worker is running"}},
		"paused, and without workers": {Why{Job: films, Gate: open, Paused: &job.Pause{Scope: "queue:films",
			Since: aMoment}}, []string{
			"queue films is paused since 2026-05-01T11:31:57Z",
			"no worker takes jobs of its queue films",
		}},
		"tiers overlap": {Why{Job: at(job.Pending, 0), Ahead: job.Ahead{Position: 1}, Workers: 1, FreeSlots: 1,
			Gate: open}, []string{"1 job is ahead"}},
		"busy, no numbers": {Why{Job: at(job.Pending, 0), Workers: 1, Gate: open}, []string{"every slot is busy"}},
		"a tier is paused": {Why{Job: at(job.Pending, 0), Workers: 1, FreeSlots: 1, Gate: open, Paused: &job.Pause{
			Scope: "tier:PUBLIC", Since: aMoment, Until: aMoment.Add(time.Hour), By: "ada", Reason: "a migration"}}, []string{
			"PUBLIC is paused by ada since 2026-05-01T11:31:57Z until 2026-05-01T12:31:57Z: a migration"}},
		"slots of others": {Why{Job: at(job.Pending, 0), Workers: 1, Gate: open, OwnFree: map[string]int{"PAID": 1, "A+B": 2},
			Ahead: job.Ahead{Running: map[job.Tier]int64{"PUBLIC": 3}}}, []string{
			"every other slot is busy: 3 PUBLIC running; 2 slots are free and belong to A and B; " +
				"1 slot is free and belongs to PAID"}},
		"gate, no reason": {Why{Job: at(job.Pending, 0), Workers: 1, FreeSlots: 1},
			[]string{"the gate is closed: the system is unhealthy"}},
		"running":           {Why{Job: at(job.Processing, 2), Gate: open}, []string{"it is running: attempt 2"}},
		"asked to stop":     {Why{Job: asked, Gate: open}, []string{"it is running, and was asked to stop"}},
		"failed once":       {Why{Job: failed}, []string{"it failed once and waits until 2026-05-01T11:31:57Z"}},
		"failed twice":      {Why{Job: twice}, []string{"it failed 2 times and waits until 2026-05-01T11:31:57Z"}},
		"ended":             {Why{Job: at(job.Completed, 1)}, []string{"it has ended: COMPLETED"}},
		"discarded, hidden": {Why{Job: at(job.NeedDiscard, 1)}, []string{"it has ended: FAILED"}},
		"over its time before": {Why{Job: slow, Gate: open}, []string{"it is running: attempt 2",
			"an attempt before ended with MAX_TIME_EXCEEDED: " + job.MaxTimeText(10*time.Second)}},
		"its worker died": {Why{Job: cut}, []string{"it has ended: FAILED",
			"an attempt before ended with HEARTBEAT_STOPPED: " + job.HeartbeatText(5*time.Second)}},
	} {
		if got := c.why.reasons(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestHealth_ForOperators(t *testing.T) {
	t.Attr("proves", "S0-E5 S1-E6 S4-E6")
	r := newRooms(t)
	up := Component{Status: "UP"}
	r.health = Health{"UP", Components{up, up, up, JobHealth{"UP", JobDetails{3, 0, 2, 5}}}}
	wantJSON(t, r.do("GET", "/actuator/health", ""), 200,
		`{"status":"UP","components":{"redis":{"status":"UP"},"db":{"status":"UP"},"gate":{"status":"UP"},`+
			`"job":{"status":"UP","details":{"pendingJobs":3,"deadJobs":0,"activeThreads":2,"poolSize":5}}}}`)
	for status, want := range map[string]int{"UP": 200, "DEGRADED": 200, "DOWN": 503, "OUT_OF_SERVICE": 503} {
		r.health.Status = status
		if rec := r.do("GET", "/actuator/health", ""); rec.Code != want ||
			!strings.Contains(rec.Body.String(), `{"status":"`+status+`"`) {
			t.Errorf("%s: %d %s", status, rec.Code, rec.Body)
		}
	}
	r.health.Components.DB = Component{"DOWN", "refused"}
	if rec := r.do("GET", "/actuator/health", ""); !strings.Contains(rec.Body.String(),
		`"db":{"status":"DOWN","detail":"refused"}`) {
		t.Error(rec.Body)
	}
}

// An answer of another room's handler has the same headers, and a panic in it is contained as well.
func TestExtra(t *testing.T) {
	r := newRooms(t)
	r.deps.Extra = []Route{
		{"GET", "/metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "tierq_up 1\n") }),
			ForEverybody},
		{"GET", "/static/*file", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			fmt.Fprint(w, q.URL.Path)
		}), ForEverybody},
		{"GET", "/panics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hunter2") }), ForEverybody},
	}
	r.Handler = NewHandler(r.deps)
	rec := r.do("GET", "/metrics", "")
	if rec.Code != 200 || rec.Body.String() != "tierq_up 1\n" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	wantHeader(t, rec, "X-Content-Type-Options", "nosniff")
	if rec := r.do("GET", "/static/a/b.css", ""); rec.Body.String() != "/static/a/b.css" ||
		rec.Header().Get("Cache-Control") != "max-age=60" {
		t.Errorf("%v %s", rec.Header(), rec.Body)
	}
	wantProblem(t, r.do("GET", "/panics", ""), 500, "INTERNAL")
	rec = r.do("POST", "/static/a/b.css", "")
	wantProblem(t, rec, 405, "METHOD_NOT_ALLOWED")
	wantHeader(t, rec, "Allow", "GET")
}

// Every address of the contract is served by exactly the methods it lists, and refuses others in the error shape.
func TestRoutes_AreAsListed(t *testing.T) {
	r := newRooms(t)
	listed := map[string][]string{}
	for _, route := range Routes() {
		listed[route.Path] = append(listed[route.Path], route.Method)
	}
	if len(listed) < 25 {
		t.Fatalf("%d addresses", len(listed))
	}
	for path, methods := range listed {
		concrete := strings.NewReplacer(":tier", "nowhere", ":id", "nothing", ":name", "nowhere").Replace(path)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			rec := r.do(method, concrete+"?unknown=1", "")
			if got := rec.Code != http.StatusMethodNotAllowed; got != slices.Contains(methods, method) {
				t.Errorf("%s %s: %d, listed %v", method, path, rec.Code, methods)
			}
			var body map[string]any
			if rec.Code >= 400 && rec.Code != 503 && json.Unmarshal(rec.Body.Bytes(), &body) != nil {
				t.Errorf("%s %s: %s", method, path, rec.Body)
			}
		}
		wantProblem(t, r.do("GET", concrete+"/", ""), 404, "NOT_FOUND")
	}
}

func TestClock_IsRedis(t *testing.T) {
	r := newRooms(t)
	r.deps.Clock = func() time.Time { return aMoment.Add(time.Hour) }
	r.Handler = NewHandler(r.deps)
	r.post(`{"runAt":"2026-05-01T12:00:00Z"}`)
	if s := r.submitted[0]; !s.RunAt.IsZero() || s.Delayed() {
		t.Errorf("half an hour ago by Redis' clock is now: %+v", s)
	}
}
