package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/web"
)

// pathOf maps an operation to the path to which its examples are sent.
var pathOf = map[string]string{"submit": "/paid/submit", "createJob": "/jobs", "createApiJob": "/api/jobs"}

// Every operation in the description works on a real server, and every answer fits the description, including the
// payloads and results of the built-in job types.
func TestServer_IsAsDescribed(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		start(t).isAsDescribed()
	})
	t.Run("redis and mariadb", func(t *testing.T) {
		t.Parallel()
		start(
			t, "REDIS_URL="+testkit.NewRedis(t).URL(), "MYSQL_DSN="+testkit.SharedMariaDB(t), "TIERQ_INSECURE=on",
		).isAsDescribed()
	})
}

func (s *server) isAsDescribed() {
	pdf := s.submitExamples()
	s.artifacts(pdf)
	s.operators()
	s.tiers()
	s.queues()
	s.schedules()
	batch := s.batches()
	s.workers()
	flow := s.flows()
	s.refusals()
	s.elsewhere()
	s.callers(pdf)
	for _, o := range s.c.Operations() {
		path := strings.NewReplacer("/flows/{id}", "/flows/"+flow, "{id}", pdf, "{tier}", "PAID",
			"{name}", "main", "{file}", "start.js",
			"/result/poll",
			"/result/poll?jobId="+pdf).Replace(o.Path)
		if strings.HasPrefix(o.Path, "/api/batches") {
			path = strings.Replace(path, pdf, batch, 1)
		}
		if o.Method == "HEAD" {
			s.want(200, "HEAD", path, "")
		}
		if !s.worked[o.Method+" "+o.Path] {
			s.t.Errorf("%s %s was not called, or never succeeded", o.Method, o.Path)
		}
	}
}

// submitExamples submits every example of the description unchanged, and waits for the jobs that end by themselves.
// It returns the id of a job that has made a PDF.
func (s *server) submitExamples() (pdf string) {
	s.t.Helper()
	for name, example := range s.c.submits(s.t) {
		operation, _, _ := strings.Cut(name, ",")
		path, whole := pathOf[operation], string(example)
		if operation == "submitBatch" {
			path, whole = "/paid/submit/batch", "["+whole+"]"
		}
		id := s.id(s.want(202, "POST", path, whole))
		typ, _ := readAsked(s.t, example)
		switch {
		case bytes.Contains(example, []byte("FAIL")):
			s.ends(id, "FAILED")
		case typ == "FORWARD_DOCUMENT", typ == "SEND_WEBHOOK", bytes.Contains(example, []byte("delaySeconds")),
			bytes.Contains(example, []byte("runAt")):
			s.want(200, "GET", "/result/poll?jobId="+id, "") // its receiver does not exist, or it runs later
		default:
			s.ends(id, "COMPLETED")
		}
		if typ == "GENERATE_PDF" {
			pdf = id
		}
		for _, look := range []string{"/jobs/" + id, "/api/jobs/" + id, "/api/jobs/" + id + "/why"} {
			s.want(200, "GET", look, "")
		}
	}
	lines := "{\"type\": \"SIMULATION\", \"idempotencyKey\": \"lines\"}\n\n{\"nope\": 1}\n"
	for range 2 {
		s.want(202, "POST", "/unpaid/submit/batch", lines, "Content-Type", "application/x-ndjson")
	}
	for range 2 {
		s.want(202, "POST", "/public/submit", `{"maxRetries":1}`, "Idempotency-Key", "mine")
	}
	s.want(422, "POST", "/public/submit", `{"maxRetries":0}`, "Idempotency-Key", "mine")
	return pdf
}

func (s *server) artifacts(pdf string) {
	s.t.Helper()
	if a := s.want(200, "GET", "/jobs/"+pdf+"/artifact", ""); !bytes.HasPrefix(a.body, []byte("%PDF")) {
		s.t.Errorf("%.100q is no PDF", a.body)
	}
	s.want(200, "GET", "/api/jobs/"+pdf+"/events", "")
	tag := s.want(200, "GET", "/result/poll?jobId="+pdf, "", "Prefer", "wait=1").header.Get("ETag")
	s.want(304, "GET", "/result/poll?jobId="+pdf, "", "If-None-Match", tag)
	report := s.id(s.want(202, "POST", "/jobs", `{"type":"REPORT","payload":{"format":"csv"}}`))
	s.ends(report, "COMPLETED")
	s.want(200, "GET", "/jobs/"+report+"/artifact", "")
}

func (s *server) operators() {
	s.t.Helper()
	later := s.id(s.want(202, "POST", "/paid/submit", `{"delaySeconds":3600}`))
	s.want(200, "DELETE", "/admin/jobs/"+later, "")
	s.want(200, "DELETE", "/api/jobs/"+later, "")
	s.want(404, "GET", "/jobs/"+later+"/artifact", "")
	for _, cancel := range [][2]string{{"DELETE", "/api/jobs/{id}"}, {"POST", "/api/jobs/{id}/cancel"}} {
		running := s.id(s.want(202, "POST", "/paid/submit", `{"payload":{"steps":[{"type":"SLEEP","durationMs":45000}]}}`))
		testkit.Eventually(s.t, 10*time.Second, "it runs", func() (bool, string) {
			a := s.want(200, "GET", "/jobs/"+running, "")
			return bytes.Contains(a.body, []byte(`"outcome":"RUNNING"`)), string(a.body)
		})
		s.want(202, cancel[0], strings.Replace(cancel[1], "{id}", running, 1), `{}`)
		s.ends(running, "CANCELLED")
	}
	s.hurried()
	dead := s.id(s.want(202, "POST", "/public/submit",
		`{"maxRetries":0,"payload":{"steps":[{"type":"FAIL"}]},"callbackUrl":"https://shop.example/"}`))
	s.ends(dead, "FAILED")
	testkit.Eventually(s.t, 10*time.Second, "the dead letter is in SQL", func() (bool, string) {
		a := s.want(200, "GET", "/admin/dead?tier=public&limit=5&from=2026-01-01T00:00:00%2B02:00", "")
		return bytes.Contains(a.body, []byte(dead)), string(a.body)
	})
	s.want(200, "GET", "/jobs/dead?page=0&size=2", "")
	s.want(200, "GET", "/admin/dead/export?type=SIMULATION", "")
	s.want(200, "POST", "/admin/dead/requeue", `{"tier":"PUBLIC","limit":10,"dryRun":true}`)
	s.want(409, "POST", "/api/jobs/"+dead+"/cancel", "")
	s.want(202, "POST", "/jobs/"+dead+"/retry", "", "Idempotency-Key", "again")
	var second string
	testkit.Eventually(s.t, 10*time.Second, "another dead letter is in SQL", func() (bool, string) {
		a := s.want(200, "GET", "/admin/dead?tier=paid", "")
		if found := anID.FindSubmatch(a.body); found != nil {
			second = string(found[1])
		}
		return second != "", string(a.body)
	})
	s.want(202, "POST", "/admin/jobs/"+second+"/resubmit", "")
	for _, list := range []string{"/admin/jobs?status=DEAD", "/admin/jobs?limit=2",
		"/api/jobs?tier=PAID&type=SIMULATION&status=DONE", "/api/jobs?cause=HANDLER_ERROR"} {
		s.want(200, "GET", list, "")
	}
	s.want(200, "GET", "/api/stats", "")
	for _, query := range []string{"", "?window=5m", "?window=1h", "?window=24h"} {
		s.want(200, "GET", "/api/stats/series"+query, "")
	}
	s.want(400, "GET", "/api/stats/series?window=1d", "")
	s.want(200, "GET", "/admin/consistency", "")
	for _, body := range []string{"", "{}"} {
		s.want(200, "POST", "/admin/consistency", body)
	}
}

// hurried hastens a job, and kills another one whose dead letter it dismisses.
func (s *server) hurried() {
	s.t.Helper()
	hastened := s.id(s.want(202, "POST", "/paid/submit", `{"delaySeconds":3600}`))
	s.want(200, "POST", "/admin/jobs/"+hastened+"/hasten", "")
	s.ends(hastened, "COMPLETED")
	s.want(409, "POST", "/admin/jobs/"+hastened+"/hasten", `{"reason":"in a hurry"}`)
	killed := s.id(s.want(202, "POST", "/paid/submit", `{"delaySeconds":3600}`))
	s.want(200, "POST", "/admin/jobs/"+killed+"/kill", `{"reason":"no use"}`)
	s.ends(killed, "FAILED")
	testkit.Eventually(s.t, 10*time.Second, "the dead letter is in SQL", func() (bool, string) {
		a := s.want(200, "GET", "/admin/dead?cause=KILLED", "")
		return bytes.Contains(a.body, []byte(killed)), string(a.body)
	})
	s.want(200, "POST", "/admin/dead/"+killed+"/dismiss", `{"reason":"dealt with"}`)
	s.want(200, "GET", "/jobs/"+killed, "")
	s.want(409, "POST", "/admin/dead/"+hastened+"/dismiss", "")
}

func (s *server) tiers() {
	s.t.Helper()
	content := s.c.at("#/paths/~1admin~1tiers~1{tier}/put/requestBody/content/application~1json")
	plan := string(text(s.t, "application/json", s.c.examplesOf(content)["a fourth tier"]))
	tag := s.want(200, "PUT", "/admin/tiers/GOLD", plan, "If-None-Match", "*").header.Get("ETag")
	s.want(412, "PUT", "/admin/tiers/GOLD", plan, "If-None-Match", "*")
	s.want(200, "PUT", "/admin/tiers/gold", plan, "If-Match", tag)
	testkit.Eventually(s.t, 10*time.Second, "the new tier is served", func() (bool, string) {
		a := s.do("POST", "/gold/submit", "")
		return a.status == 202, string(a.body)
	})
	tag = s.want(200, "GET", "/admin/tiers/gold", "").header.Get("ETag")
	s.want(304, "GET", "/admin/tiers/GOLD", "", "If-None-Match", tag)
	s.want(200, "GET", "/admin/tiers", "")
}

func (s *server) queues() {
	s.t.Helper()
	tag := s.want(200, "PUT", "/admin/queues/films", `{"limit":2}`, "If-None-Match", "*").header.Get("ETag")
	s.want(412, "PUT", "/admin/queues/films", `{"limit":2}`, "If-None-Match", "*")
	s.want(200, "PUT", "/admin/queues/films", `{"limit":2}`, "If-Match", tag)
	s.want(400, "PUT", "/admin/queues/main", "")
	s.want(200, "GET", "/admin/queues", "")
	s.want(200, "GET", "/admin/queues/films", "")
	s.want(404, "GET", "/admin/queues/flims", "")
	s.want(200, "PUT", "/admin/lines?key=acme", `{"running":5,"paused":{"reason":"their API is down"}}`)
	s.want(200, "GET", "/admin/lines?key=acme", "")
	s.want(200, "PUT", "/admin/lines?key=acme", "")
	s.want(200, "PUT", "/admin/paused/tier:PUBLIC", `{"forSeconds":60,"reason":"a migration"}`)
	s.want(422, "PUT", "/admin/paused/type:NOPE", "")
	s.want(200, "GET", "/admin/paused", "")
	s.want(204, "DELETE", "/admin/paused/tier:PUBLIC", "")
	s.want(200, "POST", "/admin/queues/films/pause", "")
	s.want(422, "POST", "/paid/submit", `{"queue":"flims"}`)
	id := s.id(s.want(202, "POST", "/paid/submit", `{"queue":"films"}`))
	s.want(202, "POST", "/public/submit", `{"queue":"films"}`)
	s.want(503, "POST", "/paid/submit", `{"queue":"films"}`)
	s.want(200, "GET", "/api/jobs/"+id, "")
	why := s.want(200, "GET", "/api/jobs/"+id+"/why", "")
	for _, reason := range []string{
		"queue films is paused since 20",
		"no worker takes jobs of its queue films",
	} {
		if !bytes.Contains(why.body, []byte(reason)) {
			s.t.Errorf("why does not say %q: %s", reason, why.body)
		}
	}
	s.want(409, "DELETE", "/admin/queues/films", "")
	s.want(200, "POST", "/admin/queues/films/resume", "")
	s.want(200, "PUT", "/admin/queues/films", `{"logs":"off"}`)
	s.want(400, "PUT", "/admin/queues/films", `{"logs":"quiet"}`)
	a := s.want(200, "POST", "/admin/queues/films/purge", "")
	if !bytes.Contains(a.body, []byte(`"cancelled":2,"more":false`)) {
		s.t.Errorf("the purge did %s", a.body)
	}
	s.ends(id, "CANCELLED")
	testkit.Eventually(s.t, 10*time.Second, "the empty queue can be deleted", func() (bool, string) {
		a := s.do("DELETE", "/admin/queues/films", "")
		return a.status == 204, string(a.body)
	})
	s.want(404, "DELETE", "/admin/queues/films", "")
}

func (s *server) workers() {
	s.t.Helper()
	s.want(200, "PUT", "/admin/queues/pictures", `{"types":["RESIZE"],"maxProcessingSeconds":600}`)
	s.want(422, "POST", "/paid/submit", `{"type":"RESIZE","queue":"main"}`)
	s.want(400, "POST", "/paid/submit", `{"type":"RESIZE","maxProcessingSeconds":601}`)
	claim := func() (id, lease string) {
		var r struct {
			Jobs []struct{ JobID, Lease string }
		}
		a := s.want(200, "POST", "/api/worker/claim", `{"worker":"w","queues":["pictures"],"wait":"10s"}`)
		if err := json.Unmarshal(a.body, &r); err != nil || len(r.Jobs) != 1 {
			s.t.Fatalf("claimed %s, %v", a.body, err)
		}
		return r.Jobs[0].JobID, r.Jobs[0].Lease
	}
	s.want(200, "POST", "/api/worker/claim",
		`{"worker":"w","queues":["pictures"],"info":{"host":"img-3","pid":7,"version":"1","language":"go","slots":4,"running":0}}`)
	testkit.Eventually(s.t, 10*time.Second, "the worker is listed", func() (bool, string) {
		a := s.want(200, "GET", "/admin/workers", "")
		return strings.Contains(string(a.body), `"name":"w"`), string(a.body)
	})
	s.want(200, "POST", "/admin/workers/w/quiet", "")
	s.want(404, "POST", "/admin/workers/v/quiet", "")
	testkit.Eventually(s.t, 10*time.Second, "the worker hears that it is quiet", func() (bool, string) {
		a := s.want(200, "POST", "/api/worker/claim", `{"worker":"w","queues":["pictures"]}`)
		return strings.Contains(string(a.body), `"state":"quiet"`), string(a.body)
	})
	s.want(200, "POST", "/admin/workers/w/terminate", "")
	s.want(200, "POST", "/admin/workers/w/resume", "")
	testkit.Eventually(s.t, 10*time.Second, "the worker may claim again", func() (bool, string) {
		a := s.want(200, "POST", "/api/worker/claim", `{"worker":"w","queues":["pictures"]}`)
		return strings.Contains(string(a.body), `"state":"run"`), string(a.body)
	})
	s.want(400, "POST", "/api/worker/claim", `{"worker":"w","queues":["pictures"],"info":{"slots":0}}`)
	id := s.id(s.want(202, "POST", "/paid/submit", `{"type":"RESIZE","payload":{"width":1},"maxProcessingSeconds":60}`))
	got, lease := claim()
	if got != id {
		s.t.Errorf("claimed %s, not %s", got, id)
	}
	about := fmt.Sprintf(`{"lease":%q`, lease)
	s.want(200, "POST", "/api/worker/heartbeat", `{"worker":"w","leases":[`+about+`,"save":1,"checkpoint":[1],`+
		`"progress":{"done":1,"total":2,"note":"half"}}]}`)
	s.want(200, "POST", "/api/worker/log", `{"worker":"w","logs":[`+about+`,"from":1,"lines":["begins",null,`+
		`{"level":"WARN","text":"odd","attrs":{"n":1},"ageMs":20}]},{"lease":"v1.none"}]}`)
	s.want(400, "POST", "/api/worker/log", `{"logs":[`+about+`}],"logs":[]}`)
	s.want(200, "GET", "/api/jobs/"+id+"/logs?level=WARN", "")
	s.want(200, "HEAD", "/api/jobs/"+id+"/logs", "")
	s.want(400, "GET", "/api/jobs/"+id+"/logs?level=LOUD", "")
	s.want(200, "GET", "/result/poll?jobId="+id, "")
	s.want(200, "GET", "/api/jobs/"+id, "")
	s.want(200, "POST", "/api/worker/release", about+`}`)
	_, lease = claim()
	s.want(409, "POST", "/api/worker/complete", about+`}`)
	about = fmt.Sprintf(`{"lease":%q`, lease)
	s.want(200, "POST", "/api/worker/fail", about+`,"error":{"message":"no"},"retryAfterSeconds":0}`)
	_, lease = claim()
	about = fmt.Sprintf(`{"lease":%q`, lease)
	s.want(200, "POST", "/api/worker/complete", about+`,"result":{"width":2}}`)
	s.ends(id, "COMPLETED")
	s.want(200, "POST", "/api/worker/report", `{"reports":[`+about+`,"completed":{"result":{"width":2}}}]}`)
	s.want(400, "POST", "/api/worker/claim", `{"worker":"w"}`)
}

// flows makes a flow whose first job adds jobs, and cancels the flow. It returns the flow's id.
func (s *server) flows() string {
	s.t.Helper()
	const body = `{"name":"pictures","jobs":{"split":{"type":"RESIZE","queue":"pictures","tier":"PAID"},` +
		`"join":{"after":["split/*"],"onFailure":"run"},"later":{"after":["join"],"delaySeconds":3600}}}`
	var f struct {
		FlowID string
		Jobs   map[string]string
	}
	a := s.want(201, "POST", "/api/flows", body, "Idempotency-Key", "flow-1")
	if err := json.Unmarshal(a.body, &f); err != nil || len(f.Jobs) != 3 {
		s.t.Fatalf("%s, %v", a.body, err)
	}
	again := s.want(201, "POST", "/api/flows", body, "Idempotency-Key", "flow-1")
	if string(again.body) != string(a.body) {
		s.t.Errorf("a repeat is answered %s", again.body)
	}
	s.want(422, "POST", "/api/flows", `{"jobs":{"a":{}}}`, "Idempotency-Key", "flow-1")
	s.want(400, "POST", "/api/flows", `{"jobs":{"a":{"after":["b"]}}}`)
	at := "/api/flows/" + f.FlowID
	s.want(200, "GET", "/api/flows?limit=1&state=RUNNING&jobId="+f.Jobs["join"], "")
	s.want(200, "GET", at, "")
	s.want(200, "GET", "/admin/jobs?status=WAITING", "")
	s.want(200, "GET", "/api/jobs/"+f.Jobs["join"]+"/why", "")
	s.want(200, "GET", "/api/jobs/"+f.Jobs["join"], "")
	var claimed struct {
		Jobs []struct{ JobID, Lease string }
	}
	a = s.want(200, "POST", "/api/worker/claim", `{"worker":"w","queues":["pictures"],"wait":"10s"}`)
	if err := json.Unmarshal(a.body, &claimed); err != nil || len(claimed.Jobs) != 1 ||
		claimed.Jobs[0].JobID != f.Jobs["split"] {
		s.t.Fatalf("claimed %s, %v", a.body, err)
	}
	lease := fmt.Sprintf(`{"lease":%q`, claimed.Jobs[0].Lease)
	const part = `,"jobs":{"split/1":{"type":"SIMULATION"}}}`
	s.want(200, "POST", at+"/jobs", lease+part)
	s.want(200, "POST", at+"/jobs", lease+part)
	s.want(409, "POST", at+"/jobs", lease+`,"jobs":{"split/1":{"maxRetries":1}}}`)
	s.want(404, "POST", "/api/flows/"+f.Jobs["join"]+"/jobs", lease+part)
	s.want(400, "POST", at+"/jobs", lease+`,"jobs":{"other":{}}}`)
	s.want(200, "POST", "/api/worker/inputs", lease+`}`)
	s.want(404, "POST", "/api/worker/inputs", lease+`,"name":"join"}`)
	s.want(200, "POST", "/api/worker/complete", lease+`,"result":{"parts":1}}`)
	s.want(409, "POST", "/api/worker/inputs", lease+`}`)
	s.ends(f.Jobs["join"], "COMPLETED")
	s.want(200, "POST", at+"/cancel", `{"reason":"enough"}`)
	s.want(200, "POST", at+"/cancel", "")
	s.ends(f.Jobs["later"], "CANCELLED")
	s.want(404, "GET", "/api/flows/"+f.Jobs["join"], "")
	return f.FlowID
}

func (s *server) refusals() {
	s.t.Helper()
	s.want(404, "GET", "/nope", "")
	s.want(404, "POST", "/api/submit", "")
	s.want(405, "PATCH", "/jobs", "")
	s.want(415, "POST", "/paid/submit", "{}", "Content-Type", "text/plain")
	s.want(422, "POST", "/paid/submit", `{"type":"CALLBACK","payload":{}}`)
	s.want(422, "POST", "/paid/submit", `{"type":"EMAIL","payload":{}}`)
	s.want(422, "POST", "/paid/submit",
		`{"type":"GENERATE_PDF","payload":{"title":"t","table":{"header":["a"],"rows":[`+strings.Repeat(`[{}],`, 50)+
			`[{}]]}}}`)
	s.want(400, "POST", "/paid/submit", `{"callbackUrl":"http://127.0.0.1/"}`)
	s.want(413, "POST", "/paid/submit", `{"payload":"`+strings.Repeat("x", 65<<10)+`"}`)
}

// elsewhere calls the health addresses, the metrics, the streams of all events, and every page that shows the
// description.
func (s *server) elsewhere() {
	s.t.Helper()
	paths := []string{"/livez", "/readyz?verbose", "/actuator/health", "/metrics", "/api/events", "/api/me"}
	for _, p := range web.Docs(nil) {
		paths = append(paths, p.Path)
	}
	for _, path := range paths {
		tag := s.want(200, "GET", path, "").header.Get("ETag")
		if tag != "" {
			s.want(304, "GET", path, "", "If-None-Match", tag)
		}
	}
	s.want(200, "GET", "/metrics", "", "Accept", "application/openmetrics-text; version=1.0.0")
}
