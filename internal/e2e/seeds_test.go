package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// seedServer is a running server with one slot, and a job in every state that a seed names.
type seedServer struct {
	*server
	cluster *cluster
	jobs    map[string]string // ids by state
}

type object = map[string]any

// newSeedServer starts the server and makes its jobs. The running job holds the slot, so that the pending one
// stays pending.
func newSeedServer(t *testing.T) *seedServer {
	c := newCluster(t)
	s := &seedServer{server: c.start("TIERQ_WORKERS=1"), cluster: c, jobs: map[string]string{}}
	s.tune("UNPAID", map[string]any{"backoff": backoff(3_600_000)})
	s.tune("PAID", map[string]any{"backoff": backoff(0), "maxProcessingTimeMs": 600_000})
	const fails = `"payload":{"steps":[{"type":"LOG","message":"hi"},{"type":"FAIL","message":"boom"}]}`
	s.jobs["completed"] = s.submit(
		"paid",
		`{"type":"SEND_EMAIL","payload":{"to":"user@example.com","subject":"s","body":"b"}}`,
	)
	s.jobs["dead"] = s.submit("paid", `{`+fails+`,"maxRetries":1}`)
	s.jobs["retrying"] = s.submit("unpaid", `{`+fails+`,"maxRetries":2}`)
	s.jobs["scheduled"] = s.submit("paid", `{"delaySeconds":3600}`)
	s.jobs["cancelled"] = s.submit("paid", `{"delaySeconds":3600}`)
	wants(t, do(t, http.MethodDelete, s.base+"/admin/jobs/"+s.jobs["cancelled"], ""), http.StatusOK, "")
	s.await(s.jobs["completed"], "COMPLETED", 20*time.Second)
	s.await(s.jobs["retrying"], "SCHEDULED", 20*time.Second)
	testkit.Eventually(t, 20*time.Second, "the dead letter and the others are in SQL", func() (bool, string) {
		outcomes := c.outcomes()
		return outcomes[s.jobs["completed"]] != "" && outcomes[s.jobs["dead"]] != "" &&
				outcomes[s.jobs["cancelled"]] != "", fmt.Sprint(
				outcomes,
			)
	})
	s.jobs["running"] = s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":300000}]}}`)
	s.await(s.jobs["running"], "PROCESSING", 20*time.Second)
	s.jobs["pending"] = s.submit("public", `{}`)
	return s
}

// object makes a call that must get this status, and returns the answer.
func (s *seedServer) object(
	t *testing.T,
	status int,
	method, path, body string,
	header ...string,
) (object, http.Header) {
	t.Helper()
	a := do(t, method, s.base+path, body, header...)
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil || a.status != status {
		t.Fatalf("%s %s: %d %s, %v; want %d", method, path, a.status, a.body, err, status)
	}
	return o, a.header
}

// has checks that members of an object match patterns.
func has(t *testing.T, o object, patterns map[string]string) {
	t.Helper()
	for name, pattern := range patterns {
		value, there := o[name]
		text := fmt.Sprint(value)
		if f, number := value.(float64); number {
			text = fmt.Sprintf("%.0f", f)
		}
		if !there || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(text) {
			t.Errorf("%s = %v, want %s", name, value, pattern)
		}
	}
}

const (
	aUUIDv7 = `[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	aStamp  = `\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z`
	null    = `<nil>`
)

// seedRows are the rows of docs/proof/SEEDS.md about the API's answers. Each is tested on the running server.
var seedRows = []struct {
	id    string
	holds func(t *testing.T, s *seedServer)
}{
	{"S0-E1", func(t *testing.T, s *seedServer) {
		o, header := s.object(
			t,
			202,
			"POST",
			"/jobs",
			`{"type":"EMAIL","payload":{"to":"user@example.com","subject":"Welcome"}}`,
		)
		has(t, o, map[string]string{"jobId": aUUIDv7, "status": "PENDING"})
		id := fmt.Sprint(o["jobId"])
		if header.Get("Location") != "/jobs/"+id {
			t.Errorf("Location %q", header.Get("Location"))
		}
		stored, _ := s.object(t, 200, "GET", "/jobs/"+id, "")
		has(
			t,
			stored,
			map[string]string{
				"type":    "EMAIL",
				"status":  "PENDING",
				"tier":    "UNPAID",
				"payload": `map\[subject:Welcome to:user@example.com\]`,
			},
		)
	}},
	{"S1-E1", func(t *testing.T, s *seedServer) {
		o, _ := s.object(
			t,
			202,
			"POST",
			"/jobs",
			`{"type":"SEND_EMAIL","payload":{"to":"user@example.com","subject":"s","body":"b"},"tier":"PUBLIC"}`,
		)
		has(
			t,
			o,
			map[string]string{"jobId": aUUIDv7, "status": "PENDING", "createdAt": aStamp, "traceId": `[0-9a-f]{32}`},
		)
	}},
	{"S0-E2", func(t *testing.T, s *seedServer) {
		o, _ := s.object(t, 200, "GET", "/jobs/"+s.jobs["completed"], "")
		has(t, o, map[string]string{
			"id": s.jobs["completed"], "type": "SEND_EMAIL", "status": "COMPLETED", "retryCount": "0", "createdAt": aStamp,
			"updatedAt": aStamp,
		})
		unknown := "019de340-01fe-7a58-be69-567cd7d6b700"
		refused, _ := s.object(t, 404, "GET", "/jobs/"+unknown, "")
		has(t, refused, map[string]string{"errorCode": "JOB_NOT_FOUND", "jobId": unknown})
	}},
	{"S1-E2", func(t *testing.T, s *seedServer) {
		o, _ := s.object(t, 200, "GET", "/jobs/"+s.jobs["retrying"], "")
		has(t, o, map[string]string{
			"jobId": s.jobs["retrying"], "type": "SIMULATION", "status": "SCHEDULED", "attempts": "1", "maxRetries": "2",
			"lastError": ".*boom.*", "runAt": aStamp,
			"createdAt": aStamp,
		})
		if history, _ := o["history"].([]any); len(history) != 1 {
			t.Errorf("history %v", o["history"])
		}
	}},
	{"S0-E5", func(t *testing.T, s *seedServer) {
		testkit.Eventually(t, 10*time.Second, "health has the four figures", func() (bool, string) {
			o, _ := s.object(t, 200, "GET", "/actuator/health", "")
			components, _ := o["components"].(object)
			part, _ := components["job"].(object)
			details, _ := part["details"].(object)
			pending, _ := details["pendingJobs"].(float64)
			return o["status"] == "UP" && part["status"] == "UP" && pending >= 1 && details["deadJobs"] == 1.0 &&
					details["activeThreads"] == 1.0 &&
					details["poolSize"] == 1.0, fmt.Sprint(
					o,
				)
		})
	}},
	{"S1-E6", func(t *testing.T, s *seedServer) {
		o, _ := s.object(t, 200, "GET", "/actuator/health", "")
		has(t, o, map[string]string{"status": "UP"})
	}},
	{"S0-E6", func(t *testing.T, s *seedServer) {
		for _, wrong := range []struct {
			method, path, body string
			status             int
			code               string
		}{
			{"GET", "/jobs/7", "", 400, "INVALID_REQUEST"}, {"POST", "/paid/submit", "{", 400, "INVALID_REQUEST"},
			{"GET", "/nowhere", "", 404, "NOT_FOUND"},
			{"POST", "/gold/submit", "", 404, "UNKNOWN_TIER"}, {"PUT", "/jobs", "{}", 405, "METHOD_NOT_ALLOWED"},
			{"POST", "/jobs/" + s.jobs["completed"] + "/retry", "", 409, "INVALID_STATE_TRANSITION"},
			{"POST", "/jobs", `{"type":"NOPE"}`, 422, "UNKNOWN_JOB_TYPE"},
		} {
			o, header := s.object(t, wrong.status, wrong.method, wrong.path, wrong.body)
			has(t, o, map[string]string{
				"type": "about:blank", "title": ".+", "status": fmt.Sprint(wrong.status), "detail": ".+", "errorCode": wrong.code,
				"message": ".+", "timestamp": aStamp,
				"traceId": header.Get("X-Trace-Id"),
			})
			if header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s is %s", wrong.path, header.Get("Content-Type"))
			}
		}
	}},
	{"S4-E3", func(t *testing.T, s *seedServer) {
		o, _ := s.object(t, 409, "POST", "/api/jobs/"+s.jobs["dead"]+"/cancel", "")
		has(t, o, map[string]string{
			"timestamp": aStamp, "status": "409", "errorCode": "INVALID_STATE_TRANSITION", "message": ".+",
			"jobId": s.jobs["dead"],
		})
	}},
	{"S0-S1", func(t *testing.T, s *seedServer) {
		s.finds(
			t,
			map[string]string{"PENDING": "pending", "PROCESSING": "running", "SUCCESS": "completed", "DEAD": "dead"},
		)
	}},
	{"S1-S1", func(t *testing.T, s *seedServer) {
		// In this seed FAILED means a job that is tried again, which is RETRYING here. FAILED finds the dead letters.
		s.finds(t, map[string]string{
			"PENDING": "pending", "RUNNING": "running", "DONE": "completed", "RETRYING": "retrying", "DEAD": "dead",
			"CANCELLED": "cancelled", "FAILED": "dead",
		})
		both := s.list("/admin/jobs", "&status=SCHEDULED")
		if !listed(both, s.jobs["retrying"]) || !listed(both, s.jobs["scheduled"]) {
			t.Errorf("scheduled: %+v", both)
		}
		if retrying := s.list("/admin/jobs", "&status=RETRYING"); len(retrying) != 1 {
			t.Errorf("retrying: %+v", retrying)
		}
	}},
	{"S4-S1", func(t *testing.T, s *seedServer) {
		s.finds(
			t,
			map[string]string{"PENDING": "pending", "RUNNING": "running", "COMPLETED": "completed", "FAILED": "dead"},
		)
	}},
	{"S4-S2", func(t *testing.T, s *seedServer) {
		for state, want := range map[string]string{"running": "RUNNING", "completed": "SUCCESS", "dead": "FAILURE FAILURE",
			"retrying": "FAILURE", "pending": ""} {
			o, _ := s.object(t, 200, "GET", "/jobs/"+s.jobs[state], "")
			history, _ := o["history"].([]any)
			var got []string
			for _, one := range history {
				attempt, _ := one.(object)
				got = append(got, fmt.Sprint(attempt["outcome"]))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %q", state, got, want)
			}
		}
	}},
	{"S2-E1", func(t *testing.T, s *seedServer) { s.accepts(t, "paid") }},
	{"S2-E2", func(t *testing.T, s *seedServer) { s.accepts(t, "unpaid") }},
	{"S2-E3", func(t *testing.T, s *seedServer) { s.accepts(t, "public") }},
	{"S2-E6", func(t *testing.T, s *seedServer) {
		for state, want := range map[string]map[string]string{
			"pending": {"currentJobStatus": "PENDING", "jobTier": "PUBLIC", "position": `\d+`, "runAt": null, "result": null},
			"running": {"currentJobStatus": "PROCESSING", "firstTriedAt": aStamp, "completedAt": null},
			"retrying": {"currentJobStatus": "SCHEDULED", "retryCount": "1", "failureCause": "HANDLER_ERROR",
				"lastError": ".*boom.*", "runAt": aStamp},
			"completed": {"currentJobStatus": "COMPLETED", "completedAt": aStamp,
				"result": `map\[accepted:\[user@example.com\].*`, "failureCause": null},
			"dead": {"currentJobStatus": "FAILED", "retryCount": "1", "maxRetries": "1", "failureCause": "HANDLER_ERROR",
				"completedAt": aStamp},
			"cancelled": {"currentJobStatus": "CANCELLED", "completedAt": aStamp},
		} {
			o, _ := s.object(t, 200, "GET", "/result/poll?jobId="+s.jobs[state], "")
			data, _ := o["apiResponseData"].(object)
			has(t, o, map[string]string{"timestamp": aStamp})
			has(t, data, map[string]string{"jobId": s.jobs[state]})
			has(t, data, want)
		}
		o, _ := s.object(t, 200, "GET", "/result/poll?wait=100ms&jobId="+s.jobs["pending"], "")
		has(t, o, map[string]string{"timestamp": aStamp})
		s.object(t, 404, "GET", "/result/poll?jobId=019de340-01fe-7a58-be69-567cd7d6b700", "")
		s.object(t, 400, "GET", "/result/poll?jobId=7", "")
	}},
	{"S3-I18", func(t *testing.T, s *seedServer) {
		for state, want := range map[string]map[string]string{
			"scheduled": {"createdAt": aStamp, "updatedAt": aStamp, "runAt": aStamp, "firstTriedAt": null, "completedAt": null},
			"retrying": {"createdAt": aStamp, "updatedAt": aStamp, "runAt": aStamp, "firstTriedAt": aStamp,
				"completedAt": null},
			"running": {"createdAt": aStamp, "updatedAt": aStamp, "runAt": null, "firstTriedAt": aStamp, "completedAt": null},
			"completed": {"createdAt": aStamp, "updatedAt": aStamp, "runAt": null, "firstTriedAt": aStamp,
				"completedAt": aStamp},
			"dead": {"createdAt": aStamp, "updatedAt": aStamp, "runAt": null, "firstTriedAt": aStamp,
				"completedAt": aStamp},
		} {
			o, _ := s.object(t, 200, "GET", "/jobs/"+s.jobs[state], "")
			has(t, o, want)
			history, _ := o["history"].([]any)
			for i, one := range history {
				attempt, _ := one.(object)
				finished := aStamp
				if state == "running" {
					finished = null
				}
				has(
					t,
					attempt,
					map[string]string{
						"attempt":    fmt.Sprint(i + 1),
						"startedAt":  aStamp,
						"finishedAt": finished,
						"worker":     ".+",
					},
				)
			}
		}
	}},
	{"S4-E1", func(t *testing.T, s *seedServer) {
		const body = `{"jobType":"SIMULATION","payload":{"steps":[{"type":"LOG","message":"hi"}]},"maxRetryCount":1}`
		o, header := s.object(t, 202, "POST", "/api/jobs", body, "X-Trace-Id", "of-the-caller.1")
		has(t, o, map[string]string{"jobId": aUUIDv7, "traceId": "of-the-caller.1"})
		if len(o) != 2 || header.Get("X-Trace-Id") != "of-the-caller.1" {
			t.Errorf("%v, echoed %q", o, header.Get("X-Trace-Id"))
		}
		if found := s.list("/api/jobs", "&traceId=of-the-caller.1"); len(found) != 1 || found[0].JobID != o["jobId"] {
			t.Errorf("by its trace: %+v", found)
		}
		o, header = s.object(t, 202, "POST", "/api/jobs", body)
		has(t, o, map[string]string{"traceId": "[0-9a-f]{32}"})
		if header.Get("X-Trace-Id") != o["traceId"] {
			t.Errorf("made %v, echoed %q", o["traceId"], header.Get("X-Trace-Id"))
		}
		s.object(t, 422, "POST", "/api/jobs", `{"jobType":"SIMULATION","payload":{"steps":[]}}`)
	}},
	{"S4-N7", func(t *testing.T, s *seedServer) {
		for asked, want := range map[int]int{0: 0, 1: 1, 2: 2, 9: 2} {
			o, _ := s.object(
				t,
				202,
				"POST",
				"/api/jobs",
				fmt.Sprintf(`{"jobType":"SIMULATION","maxRetryCount":%d}`, asked),
			)
			stored, _ := s.object(t, 200, "GET", "/api/jobs/"+fmt.Sprint(o["jobId"]), "")
			has(t, stored, map[string]string{"maxRetries": fmt.Sprint(want)})
			if (o["warnings"] != nil) != (asked > want) || asked > want && o["maxRetries"] != float64(want) {
				t.Errorf("asked for %d: %v", asked, o)
			}
		}
		s.object(t, 400, "POST", "/jobs", `{"type":"SIMULATION","maxRetries":9}`)
	}},
	{"S4-P6", func(t *testing.T, s *seedServer) {
		before := s.cluster.jobsInRedis()
		for body, status := range map[string]int{
			``: 400, `{`: 400, `[]`: 400, `{}`: 400, `{"jobType":7}`: 400, `{"jobType":"SIMULATION","more":1}`: 400,
			`{"jobType":"SIMULATION","jobType":"REPORT"}`: 400,
			`{"jobType":"SIMULATION","maxRetryCount":-1}`: 400, `{"jobType":"SIMULATION","tier":"GOLD"}`: 404,
			`{"jobType":"NOPE"}`: 422,
			`{"jobType":"SIMULATION","payload":{"steps":[{"type":"EXPLODE"}]}}`: 422,
		} {
			s.object(t, status, "POST", "/api/jobs", body)
		}
		if after := s.cluster.jobsInRedis(); after != before || before == 0 {
			t.Errorf("%d jobs before, %d after", before, after)
		}
	}},
}

// A running server fulfils every row of docs/proof/SEEDS.md about the API's answers.
func TestSeeds(t *testing.T) {
	t.Parallel()
	s := newSeedServer(t)
	for _, row := range seedRows {
		t.Run(row.id, func(t *testing.T) {
			t.Attr("proves", row.id)
			row.holds(t, s)
		})
	}
}

// accepts compares the answer to a tier's submit with the seed's, member by member.
func (s *seedServer) accepts(t *testing.T, tier string) {
	t.Helper()
	o, header := s.object(t, 202, "POST", "/"+tier+"/submit", "")
	data, _ := o["apiResponseData"].(object)
	has(t, o, map[string]string{"timestamp": aStamp})
	has(t, data, map[string]string{"jobId": aUUIDv7, "currentJobStatus": "PENDING"})
	if len(o) != 2 || len(data) != 2 || header.Get("Location") != "/result/poll?jobId="+fmt.Sprint(data["jobId"]) {
		t.Errorf("%v, Location %q", o, header.Get("Location"))
	}
	polled, _ := s.object(t, 200, "GET", header.Get("Location"), "")
	has(
		t,
		polled["apiResponseData"].(object),
		map[string]string{"jobTier": strings.ToUpper(tier), "type": "SIMULATION"},
	)
}

// finds checks that each word of a status filter finds its job and none of the others.
func (s *seedServer) finds(t *testing.T, words map[string]string) {
	t.Helper()
	for word, state := range words {
		rows := s.list("/admin/jobs", "&status="+word)
		for other, id := range s.jobs {
			if listed(rows, id) != (other == state) {
				t.Errorf("status=%s lists the %s job: %t", word, other, other != state)
			}
		}
	}
}

func listed(rows []row, id string) bool {
	for _, r := range rows {
		if r.JobID == id {
			return true
		}
	}
	return false
}

// A full server and an unhealthy one refuse a submit with 503 and the seed's words.
func TestSeedRefusals(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := &seedServer{server: c.start("TIERQ_ROLES=api", "TIERQ_CAPACITY=2"), cluster: c}
	refused := func(t *testing.T, code, message string) {
		t.Helper()
		o, header := s.object(t, 503, "POST", "/paid/submit", "")
		has(t, o, map[string]string{"errorCode": code, "message": regexp.QuoteMeta(message), "timestamp": aStamp})
		if header.Get("Retry-After") == "" {
			t.Error("it does not say when to come again")
		}
	}
	t.Run("S2-E5", func(t *testing.T) {
		t.Attr("proves", "S2-E5")
		s.submit("paid", "")
		s.submit("paid", "")
		refused(t, "QUEUE_FULL", "Request cannot be accepted at the moment due to high load. Please try again later.")
	})
	t.Run("S2-E4", func(t *testing.T) {
		t.Attr("proves", "S2-E4")
		if err := c.redis.Freeze(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(
			t,
			30*time.Second,
			"the gate is closed",
			func() (bool, string) { // by submits that Redis does not answer
				a := do(t, http.MethodPost, s.base+"/paid/submit", "")
				return a.status == http.StatusServiceUnavailable && a.code() == "SYSTEM_UNHEALTHY", string(a.body)
			},
		)
		refused(t, "SYSTEM_UNHEALTHY", "System is currently unavailable due to high load. Please try again later.")
		if err := c.redis.Thaw(); err != nil {
			t.Fatal(err)
		}
	})
}
