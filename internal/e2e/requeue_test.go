package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A dead letter is requeued one second after its end, and one day after it, when Redis has forgotten it.
// Concurrent requests requeue it once. Its attempts count on, and the history has every attempt of both
// generations.
func TestRequeue(t *testing.T) {
	t.Attr("proves", "S0-E4 S1-E4 S0-S7 S1-S5")
	t.Parallel()
	for _, when := range []string{"a second after", "a day after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			one, two := c.start("TIERQ_ROLES=api,recovery"), c.start("TIERQ_ROLES=api,recovery")
			worker := c.start("TIERQ_ROLES=worker")
			id := one.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
			c.settled(20*time.Second, id)
			if when == "a day after" {
				c.forget(id)
			}
			// The requeued job must not end, and be another dead letter, before the last of the eight requests has arrived.
			if err := worker.Freeze(); err != nil {
				t.Fatal(err)
			}
			var codes [8]int
			var all sync.WaitGroup
			for i := range codes {
				all.Go(func() {
					s := []*server{one, two}[i%2]
					codes[i] = do(t, http.MethodPost,
						s.base+[]string{"/jobs/" + id + "/retry", "/admin/jobs/" + id + "/resubmit"}[i%2], "").status
				})
			}
			all.Wait()
			slices.Sort(codes[:])
			if codes[0] != 202 || codes[1] != 409 || codes[7] != 409 {
				t.Errorf("eight at once: %v, want one 202", codes)
			}
			if err := worker.Thaw(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 15*time.Second, "the second life has ended", func() (bool, string) {
				var lives, open int
				c.row(`SELECT COUNT(*) FROM `+endings+` WHERE job_id = '`+id+`'`, &lives)
				c.row(`SELECT COUNT(*) FROM failed_jobs WHERE job_id = '`+id+`' AND requeued_at IS NULL`, &open)
				return lives == 2 && open == 1, fmt.Sprintf("%d lives, %d open dead letters", lives, open)
			})
			j := one.job(id)
			if j.Generation != 2 || j.Attempts != 2 || j.RetryCount != 0 || len(j.History) != 2 || j.History[0].Attempt != 1 ||
				j.History[1].Attempt != 2 {
				t.Errorf("%+v", j)
			}
			for _, h := range j.History {
				if h.Outcome != "FAILURE" || h.Error == nil || !strings.Contains(*h.Error, "boom") || h.Worker == nil {
					t.Errorf("history %+v", h)
				}
			}
			for _, wrong := range c.audit() {
				t.Error("audit: " + wrong)
			}
		})
	}
}

// A server that dies between the promise of a requeue and its script, or between the script and its mark in SQL,
// loses neither.
func TestRequeueKilled(t *testing.T) {
	t.Attr("proves", "S0-S7")
	t.Parallel()
	for _, point := range []string{"promise.after", "requeue.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			doomed := c.start("TIERQ_ROLES=api", "TIERQ_FAILPOINTS="+point+"=kill")
			worker := c.start("TIERQ_WORKERS=2")
			id := worker.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
			c.settled(20*time.Second, id)
			if a, err := try(http.MethodPost, doomed.base+"/jobs/"+id+"/retry", ""); err == nil {
				t.Fatalf("the server survived %s: %d %s", point, a.status, a.body)
			}
			testkit.Eventually(t, 30*time.Second, "the promise is kept", func() (bool, string) {
				var lives, marked int
				c.row(`SELECT COUNT(*) FROM `+endings+` WHERE job_id = '`+id+`'`, &lives)
				c.row(`SELECT COUNT(*) FROM failed_jobs WHERE job_id = '`+id+`' AND generation = 1 AND requeued_at IS NOT NULL`,
					&marked)
				return lives == 2 && marked == 1, fmt.Sprintf("%d lives, %d marked", lives, marked)
			})
			for _, wrong := range c.audit() {
				t.Error("audit: " + wrong)
			}
		})
	}
}

// A requeue is promised in SQL. A Redis that loses everything, such as the embedded one when its process is
// killed, only delays it.
func TestRequeueOutlivesRedis(t *testing.T) {
	t.Attr("proves", "F19 S0-P2")
	t.Parallel()
	bin, dir := testkit.BuildTierq(t), t.TempDir()
	start := func(slots string) *server {
		return startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir, "TIERQ_WORKERS="+slots)
	}
	s := start("1")
	id := s.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
	s.await(id, "FAILED", 10*time.Second)
	busy := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":40000}]}}`)
	s.await(busy, "PROCESSING", 5*time.Second)
	testkit.Eventually(t, 10*time.Second, "it is requeued", func() (bool, string) {
		a := do(t, http.MethodPost, s.base+"/jobs/"+id+"/retry", "")
		return a.status == http.StatusAccepted, string(a.body) // its failure may not have reached SQL yet
	})
	if p := s.poll(id); p.Status != "PENDING" {
		t.Fatalf("it is %s", p.Status)
	}
	if err := s.Kill(); err != nil { // after the exit the next server can lock the folder
		t.Fatal(err)
	}
	s = start("2") // the busy job comes back too, so two slots
	testkit.Eventually(t, 30*time.Second, "its second life has ended", func() (bool, string) {
		j := s.job(id)
		return j.Generation == 2 && j.Status == "FAILED", fmt.Sprintf("life %d, %s", j.Generation, j.Status)
	})
}
