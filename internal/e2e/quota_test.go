package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// counter submits as a server does for a key with a quota, and reads the key's count.
type counter struct {
	*cluster
	queue *queue.Queue
}

func (c *cluster) counter() *counter {
	c.t.Helper()
	clients, err := queue.Connect(c.redis.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = clients.Close() })
	q := queue.New(clients, &job.PlanBook{}, queue.Options{
		Nonce: "counter", Partitions: 1, PriorityBase: 10_000_000_000_000, Capacity: 10_000, ScheduledLimit: 100_000,
		HeartbeatInterval: 500 * time.Millisecond,
	})
	if err := q.LoadPlans(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return &counter{cluster: c, queue: q}
}

// submit submits a job of ann's, who may have five under way, and checks the script's answer.
func (c *counter) submit(want job.Word, typ, payload string, retries int, delay time.Duration) string {
	c.t.Helper()
	s := job.Submission{
		ID: queuetest.NewID(0), Tier: job.Public, Type: typ, Payload: []byte(payload), MaxRetries: retries, Delay: delay,
		Owner: "ann", Quota: 5,
	}
	replies, err := c.queue.Submit(c.t.Context(), 0, []job.Submission{s})
	if err != nil || replies[0].Word != want {
		c.t.Fatalf("submit: %v, %v, want %s", replies, err, want)
	}
	return string(s.ID)
}

// under waits until this number of ann's jobs is counted.
func (c *counter) under(want int64, when string) {
	c.t.Helper()
	counted := map[string]int64{"ann": want}
	if want == 0 {
		counted = map[string]int64{}
	}
	testkit.Eventually(c.t, 20*time.Second, when, func() (bool, string) {
		s, err := queuetest.Read(c.t.Context(), c.rdb, 0)
		if err != nil {
			return false, err.Error()
		}
		return maps.Equal(s.Owners, counted), time.Now().Format(time.TimeOnly)
	})
}

// With a quota of five, the sixth job is refused until another one has ended. The count returns to zero whatever
// ends the jobs (success, a cancel, a dead letter, a killed worker's retry), and whichever process dies meanwhile.
func TestQuotaComesBack(t *testing.T) {
	t.Attr("proves", "S9 F01")
	t.Parallel()
	c := newCluster(t)
	roles := "TIERQ_ROLES=api,recovery"
	api := c.start(roles)
	ann := c.counter()
	file := filepath.Join(t.TempDir(), "runs")
	quick := `{"file":"` + file + `","sleepMs":0}`
	long := ann.submit(job.OK, "COUNT", `{"file":"`+file+`","sleepMs":30000}`, 1, 0)
	doomed := ann.submit(job.OK, "SIMULATION", `{"steps":[{"type":"FAIL","message":"boom"}]}`, 0, 0)
	delayed := ann.submit(job.OK, "COUNT", quick, 1, time.Hour)
	ann.submit(job.OK, "COUNT", quick, 1, 0)
	ann.submit(job.OK, "COUNT", quick, 1, 0)
	ann.submit(job.Quota, "COUNT", quick, 1, 0)
	api.submit("public", `{"type":"COUNT","payload":`+quick+`}`) // without an owner
	if a := do(t, http.MethodDelete, api.base+"/api/jobs/"+delayed, ""); a.status >= 300 {
		t.Fatalf("cancel: %d %s", a.status, a.body)
	}
	ann.submit(job.OK, "COUNT", quick, 1, 0)
	ann.submit(job.Quota, "COUNT", quick, 1, 0)
	ann.under(5, "five are under way")

	worker := c.start("TIERQ_ROLES=worker")
	ann.under(1, "all but the long one have ended")
	testkit.Eventually(t, 10*time.Second, "the dead letter is in SQL",
		func() (bool, string) { return c.outcomes()[doomed] == "FAILED", "" })
	for _, p := range []*server{worker, api} {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("evidence: pids %d and %d killed with a lease open: %v", worker.Pid(), api.Pid(), c.leased(long))
	api = c.start(roles)
	api.requeue(doomed)
	ann.under(2, "the dead letter has another life")
	api.await(long, "PENDING", detected)
	ann.under(2, "a job that was taken back is still one")
	c.rewrite(long, quick)
	c.start("TIERQ_ROLES=worker")
	c.quiet(30 * time.Second)
	ann.under(0, "at rest nothing is counted")
	if api.poll(long).Status != "COMPLETED" || api.poll(doomed).Status != "FAILED" {
		t.Errorf("they ended %s and %s", api.poll(long).Status, api.poll(doomed).Status)
	}
}

// An API key has a quota of five. The sixth submit is refused with 429, alone or in a batch, also after the server
// was killed. Each job that ends makes room for another one. A repeated submit does not count, and other keys are
// not affected.
func TestQuotaOfAKey(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		var s *server
		overQuota(t, func() *server {
			s = c.start("TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_WORKERS=2")
			return s
		})
		c.quiet(20 * time.Second)
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := newEmbedded(t, "TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_WORKERS=2")
		overQuota(t, func() *server {
			e.start()
			return e.server
		})
	})
}

// overQuota runs this test on a server that is started twice, the second time after it was killed. At the end
// every job has ended.
func overQuota(t *testing.T, start func() *server) {
	t.Helper()
	s := start()
	ann := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"submit","inFlight":5}`)
	bob := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"bob","role":"submit"}`)
	submit := func(body string) answer { return s.asks(ann.Key, http.MethodPost, "/public/submit", body) }
	full := func() {
		t.Helper()
		a := submit(`{}`)
		wants(t, a, http.StatusTooManyRequests, "RATE_LIMITED")
		if retry, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || retry < 1 {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
		wants(t, s.asks(bob.Key, http.MethodPost, "/public/submit", ""), http.StatusAccepted, "")
	}
	var ids []string
	for range 4 {
		ids = append(ids, accepted(t, submit(`{"delaySeconds":3600}`)))
	}
	keyed := []string{"Authorization", "Bearer " + ann.Key, "Idempotency-Key", "fifth"}
	fifth := do(t, http.MethodPost, s.base+"/public/submit", `{"delaySeconds":3600}`, keyed...)
	ids = append(ids, accepted(t, fifth))
	full()
	if again := accepted(t, do(t, http.MethodPost, s.base+"/public/submit", `{"delaySeconds":3600}`,
		keyed...)); again != ids[4] {
		t.Errorf("a repeat of %s is %s", ids[4], again)
	}

	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s = start()
	soon(t, ann.Key, http.StatusOK, s)
	full()
	cancel := func(id string) {
		t.Helper()
		if a := s.asks(ann.Key, http.MethodDelete, "/api/jobs/"+id, ""); a.status >= 300 {
			t.Errorf("cancel: %d %s", a.status, a.body)
		}
	}
	cancelAll := func() {
		t.Helper()
		for _, id := range jobID.FindAllString(string(s.asks(ann.Key, http.MethodGet, "/api/jobs?status=SCHEDULED&limit=100",
			"").body), -1) {
			cancel(id)
		}
	}
	cancel(ids[0])
	batch := s.asks(ann.Key, http.MethodPost, "/public/submit/batch", `[{"delaySeconds":3600},{"delaySeconds":3600}]`)
	if text := string(batch.body); strings.Count(text, "RATE_LIMITED") != 1 || strings.Count(text, `"jobId"`) == 0 {
		t.Errorf("a batch of two with room for one: %d %s", batch.status, text)
	}
	full()
	cancel(ids[1])
	testkit.Eventually(t, 20*time.Second, "a job that runs to its end makes room again and again", func() (bool, string) {
		a := submit(`{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]}}`)
		if a.status == http.StatusAccepted {
			ids = append(ids, accepted(t, a))
		}
		return len(ids) == 8, fmt.Sprintf("%d accepted, %d", len(ids), a.status)
	})
	cancelAll()
	for range 5 {
		accepted(t, submit(`{"delaySeconds":3600}`))
	}
	full()
	cancelAll()

	// A retry of an own dead letter counts as a job too, so that dead letters do not evade the quota.
	dead := accepted(t, submit(`{"maxRetries":0,"payload":{"steps":[{"type":"FAIL"}]}}`))
	failed := func() {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, "it fails", func() (bool, string) {
			a := s.asks(ann.Key, http.MethodGet, "/result/poll?jobId="+dead, "")
			return strings.Contains(string(a.body), `"currentJobStatus":"FAILED"`), string(a.body)
		})
	}
	failed()
	for range 5 {
		accepted(t, submit(`{"delaySeconds":3600}`))
	}
	testkit.Eventually(t, 10*time.Second, "its failure is in SQL, and its retry is over the quota", func() (bool, string) {
		a := s.asks(ann.Key, http.MethodPost, "/jobs/"+dead+"/retry", "")
		return a.status == http.StatusTooManyRequests, fmt.Sprintf("%d %s", a.status, a.body)
	})
	cancelAll()
	wants(t, s.asks(ann.Key, http.MethodPost, "/jobs/"+dead+"/retry", ""), http.StatusAccepted, "")
	failed()
}

var jobID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
