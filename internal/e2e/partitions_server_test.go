package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// atRest waits until no partition has a waiting job and every job has its outcome, and audits all partitions. It
// returns the number of jobs in each.
func (c *cluster) atRest(within time.Duration, partitions int, want map[string]string) (jobs []int) {
	c.t.Helper()
	testkit.Eventually(c.t, within, fmt.Sprintf("%d jobs in %d partitions are at rest", len(want), partitions),
		func() (bool, string) {
			waiting, missing := 0, 0
			jobs = make([]int, partitions)
			for p := range partitions {
				s, err := queuetest.Read(c.t.Context(), c.rdb, p)
				if err != nil {
					return false, err.Error()
				}
				for _, set := range s.Sets {
					waiting += len(set)
				}
				jobs[p] = len(s.Jobs)
			}
			outcomes := c.outcomes()
			for id := range want {
				if outcomes[id] == "" {
					missing++
				}
			}
			return waiting+missing == 0, fmt.Sprintf("%d in a set of Redis, %d without an outcome", waiting, missing)
		})
	outcomes := c.outcomes()
	for id, outcome := range want {
		if outcomes[id] != outcome {
			c.t.Errorf("%s ended %s, want %s", id, outcomes[id], outcome)
		}
	}
	if len(outcomes) != len(want) {
		c.t.Errorf("%d outcomes of %d jobs", len(outcomes), len(want))
	}
	for p := range partitions {
		s, err := queuetest.Read(c.t.Context(), c.rdb, p)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, wrong := range s.Audit() {
			c.t.Errorf("audit of partition %d: %s", p, wrong)
		}
	}
	return jobs
}

// Two processes run 400 jobs of all kinds over four partitions. Each job has the expected outcome once, whichever
// partition it was in.
func TestFourPartitions(t *testing.T) {
	t.Attr("proves", "S4-M2")
	t.Parallel()
	c := newCluster(t)
	plan := backoffNone
	c.start("TIERQ_PARTITIONS=4", "TIERQ_WORKERS=8").tune("UNPAID", plan)
	s := c.start("TIERQ_PARTITIONS=4", "TIERQ_WORKERS=8", "TIERQ_JOURNAL=off")
	var mu sync.Mutex
	want := map[string]string{}
	expect := func(id, outcome string) {
		mu.Lock()
		defer mu.Unlock()
		want[id] = outcome
	}
	var clients sync.WaitGroup
	for n := range 8 {
		clients.Go(func() {
			for i := range 50 {
				tier := []string{"paid", "unpaid", "public"}[(n+i)%3]
				switch i % 10 {
				case 0:
					expect(s.submit("unpaid", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":1}`), "FAILED")
				case 1:
					expect(s.submit(tier, `{"delaySeconds":1}`), "COMPLETED")
				case 2:
					id := s.submit(tier, `{"delaySeconds":3600}`)
					if a := do(t, http.MethodDelete, s.base+"/api/jobs/"+id, ""); a.status >= 300 {
						t.Errorf("cancel: %d %s", a.status, a.body)
					}
					expect(id, "CANCELLED")
				case 3:
					key := fmt.Sprint("key-", n, "-", i)
					first := s.submitKeyed(tier, `{}`, key)
					if again := s.submitKeyed(tier, `{}`, key); again != first {
						t.Errorf("a repeat of %s is %s", first, again)
					}
					expect(first, "COMPLETED")
				default:
					expect(s.submit(tier, `{"payload":{"steps":[{"type":"SLEEP","durationMs":2}]}}`), "COMPLETED")
				}
			}
		})
	}
	clients.Wait()
	jobs := c.atRest(60*time.Second, 4, want)
	t.Logf("400 jobs by partition: %v", jobs)
	for p, n := range jobs {
		if n < 50 {
			t.Errorf("partition %d has %d of 400 jobs", p, n)
		}
	}
	if text, code := c.doctor(s); code != 0 || !strings.Contains(text, "ok      audit") {
		t.Errorf("doctor: %d\n%s", code, text)
	}
	var ready struct {
		Status string `json:"status"`
		Checks []struct{ Name, Status string }
	}
	if a := do(t, http.MethodGet, s.base+"/readyz?verbose", ""); json.Unmarshal(a.body, &ready) != nil ||
		a.status != http.StatusOK || ready.Status != "UP" {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	metrics := string(do(t, http.MethodGet, s.base+"/metrics", "").body)
	for p := range 4 {
		if line := fmt.Sprintf("tierq_gate_partition_open{partition=\"%d\"} 1", p); !strings.Contains(metrics, line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

var backoffNone = map[string]any{"backoff": backoff(0)}

// A capacity of 40 over four partitions is 40 places in all: a submit for which one partition has no room goes to
// another. Submits with an Idempotency-Key stay in their partition, and are refused when it is full.
func TestCapacityOverPartitions(t *testing.T) {
	t.Attr("proves", "S2-N13")
	t.Parallel()
	c := newCluster(t)
	var servers []*server
	for range 2 {
		servers = append(servers, c.start("TIERQ_ROLES=api", "TIERQ_PARTITIONS=4", "TIERQ_CAPACITY=40"))
	}
	var yes, full atomic.Int64
	var group sync.WaitGroup
	for i := range 120 {
		group.Go(func() {
			a, err := try(http.MethodPost, servers[i%2].base+"/paid/submit", "")
			switch {
			case err == nil && a.status == http.StatusAccepted:
				yes.Add(1)
			case err == nil && a.status == http.StatusServiceUnavailable && a.code() == "QUEUE_FULL" &&
				a.header.Get("Retry-After") != "":
				full.Add(1)
			default:
				t.Errorf("%v %d %s", err, a.status, a.body)
			}
		})
	}
	group.Wait()
	if yes.Load() != 40 || full.Load() != 80 {
		t.Errorf("%d accepted, %d refused; want 40 places", yes.Load(), full.Load())
	}
	if a := servers[0].ask("paid", "{}", "Idempotency-Key", "one"); a.code() != "QUEUE_FULL" {
		t.Errorf("with a key: %d %s", a.status, a.body)
	}
	for p := range 4 {
		s, err := queuetest.Read(t.Context(), c.rdb, p)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.Sets["queue"]); n != 10 {
			t.Errorf("partition %d has %d jobs of its 10", p, n)
		}
		for _, wrong := range s.Audit() {
			t.Errorf("audit of partition %d: %s", p, wrong)
		}
	}
}
