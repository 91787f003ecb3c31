package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// changes makes a change that may be repeated until the answer has one of these statuses.
func (s *server) changes(method, path, body string, statuses ...int) (a answer) {
	s.t.Helper()
	testkit.Eventually(s.t, 20*time.Second, method+" "+path, func() (bool, string) {
		a = do(s.t, method, s.base+path, body)
		for _, status := range statuses {
			if a.status == status {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d %s", a.status, a.body)
	})
	return a
}

// ranBy returns the name of the process that ran a job that has ended.
func (s *server) ranBy(id string) string {
	s.t.Helper()
	job := get[struct {
		Queue   string
		History []struct{ Worker string }
	}](s.t, s.base+"/jobs/"+id)
	if len(job.History) == 0 {
		s.t.Fatalf("%s has no history", id)
	}
	return job.Queue + " " + job.History[len(job.History)-1].Worker
}

// worker returns the name under which a process signs attempts.
func (s *server) worker() string {
	s.t.Helper()
	_, after, _ := strings.Cut(s.Output(), `"worker":"`)
	name, _, _ := strings.Cut(after, `"`)
	return name
}

const quick = `{"queue":"films","payload":{"steps":[{"type":"COMPUTE","iterations":1}]}}`

// Jobs of a declared queue run on the process that serves it, those of main on the other. A pause stops a queue and
// nothing else. A dead letter's requeue goes back into its queue.
func TestQueues(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,worker,recovery", "TIERQ_LOG_FORMAT=json")
	films := c.start("TIERQ_ROLES=worker", "TIERQ_QUEUES=films", "TIERQ_LOG_FORMAT=json")
	if a := api.ask("paid", quick); a.status != 422 || a.code() != "UNKNOWN_QUEUE" {
		t.Errorf("a submit into a queue that is not declared: %d %s", a.status, a.body)
	}
	api.changes(http.MethodPut, "/admin/queues/films", `{"schemas":{"SIMULATION":{"required":["steps"]}}}`, 200)
	if a := api.ask("paid", `{"queue":"films","payload":{}}`); a.status != 422 || a.code() != "INVALID_PAYLOAD" {
		t.Errorf("a submit that does not fit its queue's schema: %d %s", a.status, a.body)
	}
	for _, body := range []string{quick, "{}"} {
		id := api.submit("paid", body)
		api.await(id, "COMPLETED", 20*time.Second)
		want := "main " + api.worker()
		if body == quick {
			want = "films " + films.worker()
		}
		if got := api.ranBy(id); got != want {
			t.Errorf("%s ran in %q, want %q", body, got, want)
		}
	}

	api.changes(http.MethodPost, "/admin/queues/films/pause", "", 200)
	var held string
	testkit.Eventually(t, 20*time.Second, "a job of the paused queue waits", func() (bool, string) {
		held = api.submit("paid", quick)
		<-time.After(time.Second) // enough for a process that has not read the pause yet
		p := api.poll(held)
		return p.Status == "PENDING", p.Status
	})
	api.await(api.submit("public", "{}"), "COMPLETED", 20*time.Second)
	if p := api.poll(held); p.Status != "PENDING" {
		t.Errorf("a job of a paused queue is %s", p.Status)
	}
	why := do(t, http.MethodGet, api.base+"/api/jobs/"+held+"/why", "")
	if !strings.Contains(string(why.body), "queue films is paused since") {
		t.Errorf("why does not say that the queue is paused: %s", why.body)
	}
	api.changes(http.MethodPost, "/admin/queues/films/resume", "", 200)
	api.await(held, "COMPLETED", 20*time.Second)

	dead := api.submit("public", `{"queue":"films","payload":{"steps":[{"type":"FAIL","message":"no"}]}}`)
	api.await(dead, "FAILED", 60*time.Second)
	testkit.Eventually(t, 10*time.Second, "its dead letter says its queue", func() (bool, string) {
		a := do(t, http.MethodGet, api.base+"/admin/dead", "")
		return strings.Contains(string(a.body), dead) && strings.Contains(string(a.body), `"queue":"films"`), string(a.body)
	})
	api.changes(http.MethodPost, "/jobs/"+dead+"/retry", "", 202, 409)
	api.requeued(dead)
	api.await(dead, "FAILED", 60*time.Second)
	if got, want := api.ranBy(dead), "films "+films.worker(); got != want {
		t.Errorf("the second generation ran in %q, want %q", got, want)
	}
	ended := func(queue string) []string {
		var ids []string
		for _, one := range get[struct{ Items []struct{ JobID string } }](t, api.base+"/api/jobs?queue="+queue).Items {
			ids = append(ids, one.JobID)
		}
		return ids
	}
	testkit.Eventually(t, 20*time.Second, "the lists of both queues", func() (bool, string) {
		films, main := ended("films"), ended("main")
		text := fmt.Sprint(films, main)
		return len(films) >= 3 && len(main) >= 2 && slices.Contains(films, dead) && slices.Contains(films, held) &&
			!slices.Contains(main, dead) && !slices.Contains(main, held), text
	})
	c.quiet(20 * time.Second)
}

// A queue without workers fills up to its limit and refuses its own submits. Jobs of main run on meanwhile, also those
// of the tier with the smallest share.
func TestQueueWithoutWorkers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_CAPACITY=100")
	s.changes(http.MethodPut, "/admin/queues/films", `{"limit":30}`, 200)
	s.changes(http.MethodPut, "/admin/queues/thumbnails", "", 200) // a quarter of the capacity
	for queue, limit := range map[string]int{"films": 30, "thumbnails": 25} {
		body := fmt.Sprintf(`{"queue":%q}`, queue)
		for n := range limit {
			if a := s.ask("paid", body); a.status != http.StatusAccepted {
				t.Fatalf("job %d of %s: %d %s", n, queue, a.status, a.body)
			}
		}
		for range 3 {
			if a := s.ask("paid", body); a.status != 503 || a.code() != "QUEUE_FULL" || a.header.Get("Retry-After") == "" {
				t.Errorf("job %d of %s: %d %s", limit, queue, a.status, a.body)
			}
		}
	}
	for range 5 {
		s.await(s.submit("public", "{}"), "COMPLETED", 20*time.Second)
	}
	waiting := get[struct{ Items []any }](t, s.base+"/api/jobs?limit=100&status=PENDING&queue=films").Items
	if len(waiting) != 30 {
		t.Errorf("films lists %d waiting jobs", len(waiting))
	}
	testkit.Eventually(t, 10*time.Second, "the statistics have the queues", func() (bool, string) {
		stats := get[struct {
			Queues []struct {
				Queue          string
				Depth, Workers int
			}
		}](t, s.base+"/api/stats").Queues
		got := fmt.Sprint(stats)
		return got == "[{main 0 1} {films 30 0} {thumbnails 25 0}]", got
	})
	metrics := string(do(t, http.MethodGet, s.base+"/metrics", "").body)
	for _, line := range []string{
		`tierq_queue_jobs{queue="films",state="ready"} 30`, `tierq_queue_workers{queue="films"} 0`,
		`tierq_queue_workers{queue="main"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics do not have %s", line)
		}
	}
	first := waiting[len(waiting)-1].(map[string]any)["jobId"].(string)
	why := get[struct{ Reasons []string }](t, s.base+"/api/jobs/"+first+"/why").Reasons
	if len(why) == 0 || why[0] != "no worker takes jobs of its queue films" {
		t.Errorf("why the first job waits: %q", why)
	}
	a := s.changes(http.MethodPost, "/admin/queues/films/purge", "", 200)
	if !strings.Contains(string(a.body), `{"cancelled":30,"more":false}`) {
		t.Errorf("the purge did %s", a.body)
	}
	s.changes(http.MethodDelete, "/admin/queues/films", "", 204)
	if a := do(t, http.MethodDelete, s.base+"/admin/queues/thumbnails", ""); a.status != http.StatusConflict {
		t.Errorf("a queue with jobs is deleted: %d %s", a.status, a.body)
	}
}

// Redis loses everything, while no process runs: SQL has the declared queues, and the journal the jobs, which come
// back into their queues.
func TestQueuesOutliveRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_JOURNAL=on")
	s.changes(http.MethodPut, "/admin/queues/films", `{"limit":30,"schemas":{"SIMULATION":{"type":"object"}}}`, 200)
	c.counts(1, "SELECT COUNT(*) FROM queues WHERE name = 'films'")
	waiting := s.submit("paid", quick)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	c.flush()
	s = c.start("TIERQ_JOURNAL=on", "TIERQ_QUEUES=main,films")
	s.await(waiting, "COMPLETED", 40*time.Second)
	if a := do(t, http.MethodGet, s.base+"/admin/queues/films", ""); !strings.Contains(string(a.body),
		`"limit":30,"types":[],"schemas":{"SIMULATION":{"type":"object"}}`) {
		t.Errorf("the queue is %d %s", a.status, a.body)
	}
	c.quiet(20 * time.Second)
}

// An embedded server that is killed right after an answer has its queues and their jobs again at its next start.
func TestEmbeddedQueuesOutliveAKill(t *testing.T) {
	t.Parallel()
	bin, dir := testkit.BuildTierq(t, "failpoint"), t.TempDir()
	s := startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir)
	s.changes(http.MethodPut, "/admin/queues/films", "", 200)
	waiting := s.submit("paid", quick)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s = startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir, "TIERQ_QUEUES=main,films")
	s.await(waiting, "COMPLETED", 40*time.Second)
	s.await(s.submit("unpaid", quick), "COMPLETED", 20*time.Second)
}
