package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Without any fault, 3 server processes run thousands of jobs: every handler runs exactly once, and each job has
// one row.
func TestThreeProcesses(t *testing.T) {
	t.Attr("proves", "F61 S2-P14 S0-P5")
	t.Parallel()
	heavy(t)
	c := newCluster(t)
	var servers []*server
	for range 3 {
		servers = append(servers, c.start("TIERQ_CAPACITY=100000"))
	}
	file := filepath.Join(t.TempDir(), "runs")
	const jobs = manyJobs
	ids := make([]string, jobs)
	var next atomic.Int64
	var clients sync.WaitGroup
	for n := range 12 {
		clients.Go(func() {
			s := servers[n%3]
			for i := next.Add(1) - 1; i < jobs; i = next.Add(1) - 1 {
				ids[i] = s.insist([]string{"paid", "unpaid", "public"}[i%3], counting(file, 0))
			}
		})
	}
	clients.Wait()
	outcomes := c.settled(90*time.Second, ids...)
	if len(outcomes) != jobs {
		t.Errorf("%d outcomes", len(outcomes))
	}
	order, marks := executions(t, file)
	processes := map[string]int{}
	for id, m := range marks {
		var attempt, pid int
		if _, err := fmt.Sscanf(m[0], "%d %d start", &attempt, &pid); err != nil {
			t.Fatal(err)
		}
		processes[fmt.Sprint(pid)]++
		if len(m) != 2 || attempt != 1 {
			t.Errorf("%s ran %v", id, m)
		}
	}
	if len(order) != jobs || len(marks) != jobs {
		t.Errorf("%d runs of %d jobs, want %d", len(order), len(marks), jobs)
	}
	t.Logf("runs per process: %v", processes)
	var rows, retried int
	c.row(`SELECT COUNT(*), COALESCE(SUM(retry_count), 0) FROM job_results`, &rows, &retried)
	if rows != jobs || retried != 0 {
		t.Errorf("%d rows, %d retries", rows, retried)
	}
	for _, s := range servers {
		if code, _ := s.terminate(20 * time.Second); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
}

// insist submits until a job is accepted, because a busy machine makes a server refuse some. If it is unknown
// whether a job was accepted, insist asks for the job before it submits another one.
func (s *server) insist(tier, body string) string {
	s.t.Helper()
	for range 100 {
		a, err := try(http.MethodPost, s.base+"/"+tier+"/submit", body)
		switch {
		case err != nil:
			s.t.Errorf("submit: %v", err)
			return ""
		case a.status == http.StatusAccepted:
			return accepted(s.t, a)
		case a.status == http.StatusGatewayTimeout:
			var doubt struct {
				JobID string `json:"jobId"`
			}
			if err := json.Unmarshal(a.body, &doubt); err != nil || doubt.JobID == "" {
				s.t.Errorf("a doubt about no job: %v, %s", err, a.body)
				return ""
			}
			if s.knows(doubt.JobID) {
				return doubt.JobID
			}
		case a.status != http.StatusServiceUnavailable:
			s.t.Errorf("submit: %d %s", a.status, a.body)
			return ""
		default:
			<-time.After(between)
		}
	}
	s.t.Error("refused a hundred times")
	return ""
}

// knows waits some seconds for a job to appear, and reports whether it does.
func (s *server) knows(id string) bool {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); <-time.After(between) {
		if a, err := try(http.MethodGet, s.base+"/result/poll?jobId="+id, ""); err == nil && a.status == http.StatusOK {
			return true
		}
	}
	return false
}

// 200 concurrent PAID submits reach each of 3 processes while the queue has one place left: exactly one of the 600
// is accepted.
func TestLastPlace(t *testing.T) {
	t.Attr("proves", "F54 S2-N13 S2-P8 T-5")
	t.Parallel()
	c := newCluster(t)
	var servers []*server
	for range 3 {
		servers = append(servers, c.start("TIERQ_ROLES=api", "TIERQ_CAPACITY=50"))
	}
	for range 49 {
		servers[0].submit("paid", "")
	}
	var yes, full atomic.Int64
	var group sync.WaitGroup
	gun := make(chan struct{})
	const submits = 3 * 200
	for i := range submits {
		group.Go(func() {
			<-gun
			a, err := try(http.MethodPost, servers[i%3].base+"/paid/submit", "")
			switch {
			case err == nil && a.status == http.StatusAccepted:
				yes.Add(1)
			case err == nil && a.status == http.StatusServiceUnavailable && a.code() == "QUEUE_FULL":
				full.Add(1)
			default:
				t.Errorf("%v %d %s", err, a.status, a.body)
			}
		})
	}
	close(gun)
	group.Wait()
	if yes.Load() != 1 || full.Load() != submits-1 {
		t.Errorf("%d accepted, %d refused; want exactly one place", yes.Load(), full.Load())
	}
	for _, wrong := range c.audit() {
		t.Error("audit: " + wrong)
	}
}

// A flood of PUBLIC jobs leaves capacity for the better tiers: each tier is refused at its own share.
func TestFloodLeavesRoom(t *testing.T) {
	t.Attr("proves", "A29 S2-G6")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api", "TIERQ_CAPACITY=100")
	fill := func(tier string) (n int) {
		for ; ; n++ {
			a := do(t, http.MethodPost, s.base+"/"+tier+"/submit", "")
			if a.status != http.StatusAccepted {
				if a.status != http.StatusServiceUnavailable || a.code() != "QUEUE_FULL" || a.header.Get("Retry-After") == "" {
					t.Fatalf("%d %s", a.status, a.body)
				}
				return n
			}
		}
	}
	if public, unpaid, paid := fill("public"), fill("unpaid"), fill("paid"); public != 60 || unpaid != 25 || paid != 15 {
		t.Errorf("accepted %d PUBLIC, %d UNPAID, %d PAID; want 60, then up to 85, then up to 100", public, unpaid, paid)
	}
	for _, wrong := range c.audit() {
		t.Error("audit: " + wrong)
	}
}
