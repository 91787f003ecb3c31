package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// theAdmin is the admin's key of the test servers.
const theAdmin = "tq_aaaaaaaaaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// house is a server that requires keys, in either mode. forget makes Redis forget a job that SQL has; nil = the
// mode does not allow that.
type house struct {
	*server
	cluster *cluster
	forget  func(id string)
}

// houses runs a test in both modes, on servers that require keys because TIERQ_ADMIN_KEY is set.
func houses(t *testing.T, test func(t *testing.T, h house), env ...string) {
	env = append([]string{"TIERQ_ADMIN_KEY=" + theAdmin, "TIERQ_WORKERS=2"}, env...)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := newEmbedded(t, env...)
		e.start()
		test(t, house{server: e.server})
	})
	t.Run("redis and mariadb", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		test(t, house{c.start(env...), c, c.forget})
		for _, wrong := range c.audit() {
			t.Error("audit: " + wrong)
		}
	})
}

// as makes a call with a key; "" = without one.
func (h house) as(key, method, path, body string, header ...string) answer {
	h.t.Helper()
	if key != "" {
		header = append(header, "Authorization", "Bearer "+key)
	}
	return do(h.t, method, h.base+path, body, header...)
}

// key creates an API key and returns its text.
func (h house) key(fields string) (text string) {
	h.t.Helper()
	a := h.as(theAdmin, http.MethodPost, "/admin/keys", `{"name":"somebody",`+fields+`}`)
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		h.t.Fatalf("%d %s", a.status, a.body)
	}
	return made.Key
}

// is waits until a job has a status.
func (h house) is(key, id, status string) {
	h.t.Helper()
	testkit.Eventually(h.t, 20*time.Second, id+" is "+status, func() (bool, string) {
		a := h.as(key, http.MethodGet, "/result/poll?jobId="+id, "")
		return strings.Contains(string(a.body), `"currentJobStatus":"`+status+`"`), string(a.body)
	})
}

// A key for PUBLIC is refused at every address for PAID. Afterwards neither Redis nor SQL has a job, and the
// idempotency key is not taken.
func TestAnotherTiersKey(t *testing.T) {
	t.Attr("proves", "A26")
	t.Parallel()
	houses(t, func(t *testing.T, h house) {
		key := h.key(`"role":"submit","tiers":["PUBLIC"]`)
		for _, c := range [][2]string{
			{"/paid/submit", `{"payload":null}`}, {"/unpaid/submit", ""}, {"/jobs", `{"type":"SIMULATION"}`},
			{"/jobs", `{"type":"SIMULATION","tier":"PAID"}`},
			{"/api/jobs", `{"jobType":"SIMULATION","tier":"paid"}`},
		} {
			wants(t, h.as(key, http.MethodPost, c[0], c[1], "Idempotency-Key", "order-7"), http.StatusForbidden, "FORBIDDEN")
		}
		wants(t, h.as(key, http.MethodPost, "/paid/submit/batch", `[{"idempotencyKey":"order-7"}]`), http.StatusForbidden,
			"FORBIDDEN")
		if a := h.as(theAdmin, http.MethodGet, "/admin/jobs", ""); string(a.body) != `{"items":[],"next":null}` {
			t.Errorf("there are jobs: %s", a.body)
		}
		if c := h.cluster; c != nil {
			for _, pattern := range []string{"*job:*", "*idempotency*", "*main:queue", "*}:queue:*"} {
				if keys := c.rdb.Keys(t.Context(), pattern).Val(); len(keys) > 0 {
					t.Errorf("written to Redis: %q", keys)
				}
			}
			if n := c.rdb.HGetAll(t.Context(), queue.Key(0, "counters")).Val(); len(n) != 1 || n["-"] == "" { // the mark
				t.Errorf("counted in Redis: %v", n)
			}
			for _, table := range []string{"job_outcomes", "job_results", "failed_jobs", "accepted_jobs"} {
				var n int
				if c.row(`SELECT COUNT(*) FROM `+table, &n); n > 0 {
					t.Errorf("%d written to %s", n, table)
				}
			}
		}
		a := h.as(key, http.MethodPost, "/public/submit", `{"payload":null}`, "Idempotency-Key", "order-7")
		if a.status != http.StatusAccepted || a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("its own tier, under the same key: %d %s", a.status, a.body)
		}
		h.is(key, accepted(t, a), "COMPLETED")
	})
}

// about returns all requests about one job that a submitter may make.
func about(id string) [][2]string {
	return [][2]string{
		{"GET", "/result/poll?jobId=" + id}, {"GET", "/result/poll?wait=5s&jobId=" + id}, {"HEAD", "/jobs/" + id},
		{"GET", "/jobs/" + id}, {"GET", "/api/jobs/" + id},
		{"GET", "/jobs/" + id + "/artifact"}, {"GET", "/api/jobs/" + id + "/why"}, {"GET", "/api/jobs/" + id + "/events"},
		{"POST", "/jobs/" + id + "/retry"}, {"POST", "/api/jobs/" + id + "/cancel"}, {"DELETE", "/api/jobs/" + id},
	}
}

var changingStamp = regexp.MustCompile(`"timestamp":"[^"]*"`)

// hidden makes all requests about a job with keys that are not its owner's. Each answer must equal that for a job
// that does not exist.
func (h house) hidden(when, id string, keys ...string) {
	h.t.Helper()
	const nobodys = "019de340-01fe-7a58-be69-567cd7d6b700"
	for _, key := range keys {
		unknown := about(nobodys)
		for i, c := range about(id) {
			a, u := h.as(key, c[0], c[1], "", "X-Trace-Id", "t"), h.as(key, unknown[i][0], unknown[i][1], "", "X-Trace-Id", "t")
			got := changingStamp.ReplaceAllString(strings.ReplaceAll(string(a.body), id, nobodys), "")
			if want := changingStamp.ReplaceAllString(string(u.body), ""); a.status != http.StatusNotFound ||
				u.status != http.StatusNotFound || got != want {
				h.t.Errorf("%s: %s %s: %d %s; of a job that nobody has: %d %s", when, c[0], c[1], a.status, a.body, u.status,
					u.body)
			}
			if a.took > 3*time.Second {
				h.t.Errorf("%s: %s %s waited %s", when, c[0], c[1], a.took)
			}
		}
		if key == "" {
			continue
		}
		for _, list := range []string{"/api/jobs?limit=100", "/jobs/dead?size=100"} {
			if a := h.as(key, http.MethodGet, list, ""); a.status != http.StatusOK || strings.Contains(string(a.body), id) {
				h.t.Errorf("%s: %s: %d %s", when, list, a.status, a.body)
			}
		}
	}
}

// shown checks that a job's owner and operators see the job, and that a read-only key cannot change it.
func (h house) shown(when, id, owner, reader string) {
	h.t.Helper()
	for _, key := range []string{owner, reader, theAdmin} {
		for _, path := range []string{"/result/poll?jobId=" + id, "/jobs/" + id, "/api/jobs/" + id,
			"/api/jobs/" + id + "/why"} {
			if a := h.as(key, http.MethodGet, path, ""); a.status != http.StatusOK || !strings.Contains(string(a.body), id) {
				h.t.Errorf("%s: %s: %d %s", when, path, a.status, a.body)
			}
		}
	}
	for _, c := range about(id) {
		if c[0] == "POST" || c[0] == "DELETE" {
			wants(h.t, h.as(reader, c[0], c[1], ""), http.StatusForbidden, "FORBIDDEN")
		}
	}
	wants(h.t, h.as(owner, http.MethodDelete, "/admin/jobs/"+id, ""), http.StatusForbidden, "FORBIDDEN")
	wants(h.t, h.as(owner, http.MethodGet, "/admin/jobs", ""), http.StatusForbidden, "FORBIDDEN")
}

// Another key's job looks as if it did not exist: while it waits and runs, after its end, with its file, as a dead
// letter, after its requeue, and when only SQL has it. Its owner and operators see it all the time, and the
// others' calls do not change it.
func TestSomebodyElsesJob(t *testing.T) {
	t.Attr("proves", "A01 A02 A03")
	t.Parallel()
	houses(t, func(t *testing.T, h house) {
		owner, other, reader := h.key(`"role":"submit"`), h.key(`"role":"submit"`), h.key(`"role":"read-only"`)
		submit := func(tier, body string) string {
			t.Helper()
			return accepted(t, h.as(owner, http.MethodPost, "/"+tier+"/submit", body))
		}
		stage := func(when, id string) {
			t.Helper()
			h.hidden(when, id, other, "")
			h.shown(when, id, owner, reader)
		}
		later := submit("paid", `{"delaySeconds":3600}`)
		file := submit("paid", `{"type":"GENERATE_PDF","payload":{"title":"secret"}}`)
		dead := submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
		stage("scheduled", later)
		running := submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":4000}]}}`)
		h.is(owner, running, "PROCESSING")
		stage("running", running)
		h.is(owner, file, "COMPLETED")
		stage("completed", file)
		if a := h.as(owner, http.MethodGet, "/jobs/"+file+"/artifact", ""); a.status != http.StatusOK ||
			!strings.HasPrefix(string(a.body), "%PDF") {
			t.Errorf("its own file: %d %.100s", a.status, a.body)
		}
		h.is(owner, dead, "FAILED")
		stage("dead", dead)
		if a := h.as(owner, http.MethodGet, "/jobs/dead", ""); !strings.Contains(string(a.body), dead) {
			t.Errorf("its own dead letters: %s", a.body)
		}
		testkit.Eventually(t, 10*time.Second, "it can be requeued", func() (bool, string) {
			a := h.as(owner, http.MethodPost, "/jobs/"+dead+"/retry", "")
			return a.status == http.StatusAccepted, string(a.body)
		})
		stage("requeued", dead)
		h.is(owner, running, "COMPLETED") // the others' cancels had no effect
		stage("ended", running)
		if h.forget != nil {
			h.cluster.counts(1, `SELECT COUNT(*) FROM job_results WHERE job_id = '`+file+`'`)
			h.forget(file)
			stage("forgotten by Redis", file)
		}
		if a := h.as(owner, http.MethodPost, "/api/jobs/"+later+"/cancel", ""); a.status != http.StatusOK {
			t.Errorf("its own to cancel: %d %s", a.status, a.body)
		}
		h.hidden("cancelled", later, other, "")
		for i := range 40 { // its neighbours in time, with other random bits
			near := fmt.Sprintf("%s%04x%s", running[:24], i*1531, running[28:])
			wants(t, h.as(owner, http.MethodGet, "/result/poll?jobId="+near, ""), http.StatusNotFound, "JOB_NOT_FOUND")
		}
		mine := h.as(owner, http.MethodGet, "/api/jobs?limit=100", "")
		for _, id := range []string{later, running, file, dead} {
			if !strings.Contains(string(mine.body), id) {
				t.Errorf("its own list has no %s: %s", id, mine.body)
			}
		}
		everybodys := h.as(reader, http.MethodGet, "/admin/jobs?limit=100", "")
		if ids := anID.FindAllString(string(everybodys.body),
			-1); len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 4 {
			t.Errorf("an operator's list: %s", everybodys.body)
		}
	}, "TIERQ_ANONYMOUS_RATE=10000")
}
