package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Redis loses everything, and there is no journal. The accepted jobs are lost, and each process logs and counts
// them. The worker's running jobs are fenced: their reports change nothing, although Redis no longer knows the
// ids. New jobs run.
func TestLossIsCounted(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	for _, loss := range []string{"FLUSHALL", "restarted empty"} {
		t.Run(loss, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			file := filepath.Join(t.TempDir(), "runs")
			api := c.start("TIERQ_ROLES=api,recovery")
			worker := c.start("TIERQ_ROLES=worker", "TIERQ_FAILPOINTS=handler.after=stop@2")
			before := api.submit("paid", counting(file, 0))
			api.await(before, "COMPLETED", 10*time.Second)
			c.settled(20*time.Second, before)
			lost := []string{api.submit("paid", counting(file, 30_000))} // its heartbeats will be answered LOST
			testkit.Eventually(t, 10*time.Second, "it runs", func() (bool, string) { return c.leased(lost[0]), "" })
			lost = append(lost, api.submit("paid", counting(file, 0))) // its ending will be
			worker.waitFor("failpoint handler.after hit", 10*time.Second)
			for range 3 {
				lost = append(lost, api.submit("public", strings.TrimSuffix(counting(file, 0), "}")+`,"delaySeconds":600}`))
			}
			testkit.Eventually(t, 10*time.Second, "a look has seen them all", func() (bool, string) {
				running, due := api.metric(`tierq_jobs_inflight{tier="PAID"}`), api.metric(`tierq_jobs_scheduled{tier="PUBLIC"}`)
				return running == "2" && due == "3", running + " " + due
			})
			if loss == "FLUSHALL" {
				if err := c.rdb.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				c.restartRedisEmpty()
			}
			api.waitFor("Redis has a new incarnation", 15*time.Second)
			said := line(api.Output(), "Redis has a new incarnation")
			t.Logf("evidence: %s", said)
			for _, part := range []string{`"jobs_before":5`, `"jobs_now":0`, `"missing":5`, `"journal":"off`} {
				if !strings.Contains(said, part) {
					t.Errorf("the log does not say %s", part)
				}
			}
			if got := api.metric("tierq_redis_missing_jobs_total"); got != "5" {
				t.Errorf("%q jobs are counted as missing, want 5", got)
			}
			if err := worker.Thaw(); err != nil {
				t.Fatal(err)
			}
			worker.waitFor("the ending came too late: the lease was lost", 10*time.Second)
			worker.waitFor("the lease is lost; the result of its handler is dropped", 10*time.Second)
			testkit.Eventually(t, 10*time.Second, "the gate is open again", func() (bool, string) {
				a := do(t, http.MethodGet, api.base+"/readyz", "")
				return a.status == http.StatusOK, string(a.body)
			})
			after := api.submit("paid", counting(file, 0))
			api.await(after, "COMPLETED", 10*time.Second)
			outcomes := c.settled(20*time.Second, before, after)
			for _, id := range lost {
				if a := do(t, http.MethodGet, api.base+"/result/poll?jobId="+id, ""); a.status != http.StatusNotFound ||
					outcomes[id] != "" {
					t.Errorf("%s: %d %s, outcome %q", id, a.status, a.body, outcomes[id])
				}
			}
			for _, s := range []*server{worker, api} {
				if code, _ := s.terminate(10 * time.Second); code != 0 {
					t.Errorf("exit %d", code)
				}
			}
			if n := strings.Count(api.Output(), "Redis has a new incarnation"); n != 1 {
				t.Errorf("it is said %d times", n)
			}
		})
	}
}

// metric returns a sample of the server's /metrics; "" if it is absent.
func (s *server) metric(sample string) string {
	s.t.Helper()
	page := do(s.t, http.MethodGet, s.base+"/metrics", "")
	for line := range strings.Lines(string(page.body)) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
