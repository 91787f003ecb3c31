package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Jobs whose workers are lost again and again end FAILED. By default a crash counts as a retry: PUBLIC ends after 2
// attempts, UNPAID after 3, PAID after 6, with 1, 2 and 5 retries in failed_jobs. A tier with maxCrashes counts crashes
// apart: each ends at crash maxCrashes + 1, with no retry spent.
func TestLostWorkersSpendRetries(t *testing.T) {
	t.Attr("proves", "F46")
	t.Parallel()
	type end struct {
		attempts, retries int
		cause             string
	}
	const cause = "HEARTBEAT_STOPPED"
	for name, tc := range map[string]struct {
		maxCrashes any
		want       map[string]end
	}{
		"default":    {nil, map[string]end{"public": {2, 1, cause}, "unpaid": {3, 2, cause}, "paid": {6, 5, cause}}},
		"maxCrashes": {2, map[string]end{"public": {3, 0, cause}, "unpaid": {3, 0, cause}, "paid": {3, 0, cause}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			api := c.start("TIERQ_ROLES=api,recovery")
			ids, all := map[string]string{}, []string{}
			for tier := range tc.want {
				if tc.maxCrashes == nil { // as the plans are by default
					api.tune(strings.ToUpper(tier), swift)
				} else {
					api.tune(strings.ToUpper(tier), map[string]any{"heartbeatTimeoutMs": 500, "maxCrashes": tc.maxCrashes})
				}
				ids[tier] = api.submit(tier, `{"type":"CRASH","payload":{"afterMs":50}}`)
				all = append(all, ids[tier])
			}
			dead := func() (n int) {
				c.row(`SELECT COUNT(*) FROM failed_jobs`, &n)
				return n
			}
			lost := 0
			for dead() < len(ids) { // one slot: no job is lost with another one
				worker := c.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=1")
				testkit.Eventually(t, 2*detected, "a worker is lost, or all jobs have ended", func() (bool, string) {
					return worker.Exited() || dead() == len(ids), fmt.Sprint(lost, " lost, ", dead(), " dead letters")
				})
				if worker.Exited() {
					lost++
				}
			}
			runs := 0
			for tier, want := range tc.want {
				var got end
				c.row(`SELECT attempts, total_retries, failure_cause FROM failed_jobs WHERE job_id = '`+ids[tier]+`'`,
					&got.attempts, &got.retries, &got.cause)
				if got != want {
					t.Errorf("%s: %+v, want %+v", tier, got, want)
				}
				runs += got.attempts
			}
			if lost != runs {
				t.Errorf("%d workers were lost in %d attempts", lost, runs)
			}
			c.settled(detected, all...)
		})
	}
}

// once returns the submit of a job that its first crash or failure would end.
func once(body string) string { return strings.TrimSuffix(body, "}") + `,"maxRetries":0}` }

// reclaimed claims the job of a queue that waits or is about to be taken back, and checks that its loss cost nothing.
func reclaimed(t *testing.T, s *server, id string, attempt int) workerJob {
	t.Helper()
	var got []workerJob
	testkit.Eventually(t, 60*time.Second, "the job of the other program is claimed again", func() (bool, string) {
		got = s.claims("", "w", `"queues":["pictures"],"wait":"2s","leaseSeconds":60`)
		return len(got) > 0, string(do(t, http.MethodGet, s.base+"/result/poll?jobId="+id, "").body)
	})
	if j := got[0]; j.JobID != id || j.RetryCount != 0 || attempt > 0 && j.Attempt != attempt {
		t.Errorf("claimed %+v, want attempt %d of %s with no retry spent", j, attempt, id)
	}
	return got[0]
}

// A loss of Redis and an orderly stop do not count as crashes. Jobs without a retry survive both, whether the pool or
// an external worker runs them.
func TestLossAndStopSpendNoRetry(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "runs")
	api := c.start("TIERQ_ROLES=api,recovery", "TIERQ_JOURNAL=on")
	pool := c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on", "TIERQ_DRAIN_TIMEOUT=200ms")
	api.changes(http.MethodPut, "/admin/queues/pictures", "", 200)
	inside := api.submit("public", once(counting(file, 3000)))
	outside := api.submit("public", `{"type":"RESIZE","queue":"pictures","maxRetries":0}`)
	held := reclaimed(t, api, outside, 1)
	api.await(inside, "PROCESSING", 10*time.Second)
	if err := c.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	next := reclaimed(t, api, outside, 0)
	if got := api.reports("", "complete", held.Lease, ""); got != "LEASE_LOST" {
		t.Errorf("the report from before the loss: %s", got)
	}
	if got := api.reports("", "complete", next.Lease, ""); got != "COMPLETED" {
		t.Errorf("the next one: %s", got)
	}
	stopped := api.submit("public", once(counting(file, 3000)))
	api.await(stopped, "PROCESSING", 20*time.Second)
	if code, _ := pool.terminate(20 * time.Second); code != 0 {
		t.Errorf("the pool ended with %d", code)
	}
	if p := api.poll(stopped); p.Status != "PENDING" || p.RetryCount != 0 {
		t.Errorf("after the stop: %+v", p)
	}
	c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on")
	for _, id := range []string{inside, outside, stopped} {
		if p := api.await(id, "COMPLETED", 40*time.Second); p.RetryCount != 0 {
			t.Errorf("%s: %d retries", id, p.RetryCount)
		}
	}
	c.settled(20*time.Second, inside, outside, stopped)
	for id, n := range c.spent() {
		if n != 0 {
			t.Errorf("%s has %d retries in SQL", id, n)
		}
	}
}

// The leases of external workers outlive an embedded server's restarts, orderly ones and kills: their
// heartbeats and reports count, and nothing costs their jobs a retry. What only Redis knew is there after an orderly
// stop: progress, a unique key for seconds. A job of the server's own pool pays for a kill, because it
// may have caused it.
func TestEmbeddedRestartsSpendNoRetryOfOthers(t *testing.T) {
	t.Attr("proves", "F07")
	t.Parallel()
	e := newEmbedded(t, "TIERQ_DRAIN_TIMEOUT=200ms")
	e.start()
	file := filepath.Join(t.TempDir(), "runs")
	e.server.changes(http.MethodPut, "/admin/queues/pictures", "", 200)
	outside := e.server.submit("public", `{"type":"RESIZE","queue":"pictures","maxRetries":0}`)
	lease := reclaimed(t, e.server, outside, 1).Lease
	const timed = `{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]},"unique":{"key":"k","while":3600}}`
	first := e.server.submit("paid", timed)
	e.server.await(first, "COMPLETED", 20*time.Second)
	beat := func(what, more string) {
		t.Helper()
		a := e.server.asks("", http.MethodPost, "/api/worker/heartbeat",
			`{"worker":"w","leases":[{"lease":"`+lease+`"`+more+`}]}`)
		if a.status != http.StatusOK || !strings.Contains(string(a.body), `"word":"OK"`) {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	beat("at first", `,"save":1,"checkpoint":{"at":7},"progress":{"done":3,"total":9}`)
	own := e.server.submit("public", once(counting(file, 2000)))
	e.server.await(own, "PROCESSING", 10*time.Second)
	for n := range 3 {
		if code, _ := e.server.terminate(20 * time.Second); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
		e.start()
		beat(fmt.Sprint("after stop ", n), "")
		for path, want := range map[string]string{
			"/result/poll?jobId=" + outside: `"done":3,"total":9`, "/jobs/" + outside: `"PROCESSING"`,
		} {
			if a := do(t, http.MethodGet, e.server.base+path, ""); !strings.Contains(string(a.body), want) {
				t.Errorf("after stop %d %s: %s", n, path, a.body)
			}
		}
		if a := do(t, http.MethodPost, e.server.base+"/paid/submit", timed); !strings.Contains(string(a.body), first) {
			t.Errorf("after stop %d the unique key for seconds is forgotten: %s", n, a.body)
		}
	}
	if p := e.server.await(own, "COMPLETED", 20*time.Second); p.RetryCount != 0 {
		t.Errorf("the pool's job has %d retries after stops", p.RetryCount)
	}
	own = e.server.submit("public", counting(file, 2000))
	spent := e.server.submit("public", once(counting(file, 2000)))
	testkit.Eventually(t, 20*time.Second, "the handlers have begun", func() (bool, string) {
		_, marks := executions(t, file)
		return len(marks[own]) > 0 && len(marks[spent]) > 0, fmt.Sprint(marks)
	})
	for n := range 3 {
		if err := e.server.Kill(); err != nil {
			t.Fatal(err)
		}
		e.start()
		beat(fmt.Sprint("after kill ", n), "")
	}
	if got := e.server.reports("", "complete", lease, ""); got != "COMPLETED" {
		t.Error(got)
	}
	if p := e.server.await(outside, "COMPLETED", 10*time.Second); p.RetryCount != 0 {
		t.Errorf("the external worker's job: %+v", p)
	}
	if p := e.server.await(own, "COMPLETED", 20*time.Second); p.RetryCount < 1 || p.RetryCount > 3 {
		t.Errorf("the pool's job has %d retries after three kills", p.RetryCount)
	}
	if p := e.server.await(spent, "FAILED", 20*time.Second); p.RetryCount != 0 || *p.FailureCause != "HEARTBEAT_STOPPED" {
		t.Errorf("the pool's job without retries: %+v", p)
	}
}
