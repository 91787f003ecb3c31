//go:build long

package e2e

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Without any fault, three processes run a hundred thousand jobs, and every handler runs once.
func TestHundredThousand(t *testing.T) {
	t.Attr("proves", "F61")
	c := newCluster(t)
	var servers []*server
	for range 3 {
		servers = append(servers, c.start("TIERQ_CAPACITY=1000000"))
	}
	file := filepath.Join(t.TempDir(), "runs")
	const jobs = 100_000
	var next atomic.Int64
	var clients sync.WaitGroup
	for n := range 24 {
		clients.Go(func() {
			for i := next.Add(1); i <= jobs; i = next.Add(1) {
				servers[n%3].submit([]string{"paid", "unpaid", "public"}[i%3], counting(file, 0))
			}
		})
	}
	clients.Wait()
	var rows, retried int
	testkit.Eventually(t, 10*time.Minute, "all have a result", func() (bool, string) {
		c.row(`SELECT COUNT(*), COALESCE(SUM(retry_count), 0) FROM job_results`, &rows, &retried)
		return rows >= jobs && c.outbox() == 0, fmt.Sprint(rows)
	})
	for _, wrong := range c.audit() {
		t.Error("audit: " + wrong)
	}
	order, marks := executions(t, file)
	t.Logf("evidence: %d rows, %d retries; %d runs of %d jobs", rows, retried, len(order), len(marks))
	if rows != jobs || retried != 0 || len(order) != jobs || len(marks) != jobs {
		t.Errorf("%d rows, %d retries, %d runs of %d jobs, want %d", rows, retried, len(order), len(marks), jobs)
	}
}
