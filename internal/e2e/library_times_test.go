package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// The table of times in docs/WORKERS.md holds for a worker of each library. An idle worker's job has its whole time. A
// killed worker's jobs are taken back within the lease and 6 s, as a crash. A handler that ignores its context on a
// living worker is over its time, and no crash.
func TestWorkerLibraries_Times(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery")
	for language := range libraries {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "libraries", "times."+language+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			p := workerOf(t, language, string(text))
			// A claim of an idle worker waits for 20 s at the server, and is made again: after 14 s a claim has waited 14 s,
			// and after 25 s the second one 5 s.
			for _, idle := range []time.Duration{14 * time.Second, 25 * time.Second} {
				t.Run("idle for "+idle.String(), func(t *testing.T) {
					t.Parallel()
					idleLibrary(t, s, p, language+"-idle-"+idle.String(), idle)
				})
			}
			t.Run("killed", func(t *testing.T) {
				t.Parallel()
				killedLibrary(t, c, s, p, language+"-killed")
			})
			t.Run("deaf", func(t *testing.T) {
				t.Parallel()
				deafLibrary(t, c, s, p, language+"-deaf")
			})
		})
	}
}

// serves starts the program as a worker of a queue, and waits until its claim has declared the queue.
func (p library) serves(t *testing.T, s *server, queue string) *testkit.Process {
	t.Helper()
	w := p.with("QUEUE="+queue).start(t, s)
	testkit.Eventually(t, 20*time.Second, "the queue is declared", func() (bool, string) {
		got := do(t, "GET", s.base+"/admin/queues/"+queue, "")
		return got.status == 200, string(got.body)
	})
	return w
}

func (s *server) into(queue, tier, typ, payload string) string {
	return s.submit(tier, fmt.Sprintf(`{"type":%q,"queue":%q,"payload":%s}`, typ, queue, payload))
}

func idleLibrary(t *testing.T, s *server, p library, queue string, idle time.Duration) {
	p.serves(t, s, queue)
	<-time.After(idle)
	id := s.into(queue, "public", "NAP", `{"seconds":5}`)
	if got := s.await(id, "COMPLETED", 30*time.Second); string(got.Result) != "1" || got.RetryCount != 0 {
		t.Errorf("result %s (the attempt), %d retries", got.Result, got.RetryCount)
	}
}

// slack is what a busy machine may add to a documented time.
const slack = 10 * time.Second

func killedLibrary(t *testing.T, c *cluster, s *server, p library, queue string) {
	first := p.serves(t, s, queue)
	ids := map[string]string{}
	for _, tier := range []string{"paid", "unpaid", "public"} {
		ids[tier] = s.into(queue, tier, "HOLD", `{}`)
	}
	for _, id := range ids {
		s.await(id, "PROCESSING", 20*time.Second)
	}
	<-time.After(1500 * time.Millisecond)
	killed := time.Now()
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	p.serves(t, s, queue)
	for tier, lease := range map[string]time.Duration{
		"paid": 15 * time.Second, "unpaid": 6 * time.Second, "public": 5 * time.Second,
	} {
		if got := s.await(ids[tier], "COMPLETED", lease+2*slack); string(got.Result) != "2" {
			t.Errorf("%s: ended by attempt %s", tier, got.Result)
		}
		outcome, _, finished := c.attempt(t, ids[tier], 1)
		took := finished.Sub(killed)
		if outcome != "HEARTBEAT_STOPPED" || took > lease+6*time.Second+slack {
			t.Errorf("%s: %s, %s after the kill; documented are %s", tier, outcome, took, lease+6*time.Second)
		}
		t.Logf("evidence: %s: taken back %s after the kill, at most %s are documented", tier, took.Round(time.Millisecond),
			lease+6*time.Second)
	}
}

func deafLibrary(t *testing.T, c *cluster, s *server, p library, queue string) {
	p.serves(t, s, queue)
	id := s.into(queue, "public", "HOLD", `{}`)
	if got := s.await(id, "COMPLETED", 60*time.Second); string(got.Result) != "2" || got.RetryCount != 1 {
		t.Errorf("ended by attempt %s after %d retries", got.Result, got.RetryCount)
	}
	outcome, why, _ := c.attempt(t, id, 1)
	if outcome != "MAX_TIME_EXCEEDED" || !strings.Contains(why, "10 s") || !strings.Contains(why, "maxProcessingSeconds") {
		t.Errorf("%s: %s", outcome, why)
	}
}

// attempt returns what SQL has of an attempt, once it is there. The servers and the stores have one clock here.
func (c *cluster) attempt(t *testing.T, id string, number int) (outcome, why string, finished time.Time) {
	t.Helper()
	query := `SELECT COUNT(*), COALESCE(MAX(outcome), ''), COALESCE(MAX(error), ''),
		COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at)), 0)
		FROM job_attempts WHERE job_id = '%s' AND attempt = %d`
	testkit.Eventually(t, 20*time.Second, "the attempt is in SQL", func() (bool, string) {
		n, at := 0, int64(0)
		c.row(fmt.Sprintf(query, id, number), &n, &outcome, &why, &at)
		finished = time.UnixMicro(at)
		return n == 1, ""
	})
	return outcome, why, finished
}

// A claim that is asked for again gets the time that is left of its attempt.
func TestRepeatedClaim_Time(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api")
	claim := `"queues":["pictures"],"claimId":"c1","leaseSeconds":60`
	s.claims("", "w1", `"queues":["pictures"]`) // declares the queue
	id := s.into("pictures", "paid", "RESIZE", `{}`)
	first := s.claims("", "w1", claim)
	if len(first) != 1 || first[0].JobID != id || first[0].EndsInMs > 50_000 || first[0].EndsInMs < 40_000 {
		t.Fatalf("the claim got %+v", first)
	}
	<-time.After(30 * time.Second)
	again := s.claims("", "w1", claim+`,"repeat":1`)
	if len(again) != 1 || again[0].Attempt != 1 || again[0].EndsInMs > 20_000 || again[0].EndsInMs < 10_000 {
		t.Errorf("30 s later the same claim got %+v", again)
	}
	if got := s.reports("", "complete", again[0].Lease, ""); got != "COMPLETED" {
		t.Errorf("completed: %s", got)
	}
}
