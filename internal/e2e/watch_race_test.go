package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Three watches reclaim the same expired jobs, while the frozen worker that holds them wakes and sends its
// heartbeats. Each job is either kept or reclaimed once, never both.
func TestWatchesRaceHeartbeats(t *testing.T) {
	t.Attr("proves", "F26")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	for range 2 {
		c.start("TIERQ_ROLES=recovery")
	}
	c.plan("PUBLIC", "maxProcessingTimeMs", 60_000, "maxRetries", 3)
	worker := c.start("TIERQ_ROLES=worker")
	file := filepath.Join(t.TempDir(), "runs")
	var ids []string
	for range 12 {
		ids = append(ids, api.submit("public", counting(file, 2_500)))
	}
	expiring := func() int64 { return c.rdb.ZCard(t.Context(), "{tierq:0}:suspects:crashed").Val() }
	testkit.Eventually(t, 5*time.Second, "all are running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == len(ids), fmt.Sprint(len(order))
	})
	if err := worker.Freeze(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, detected, "a first look has found all", func() (bool, string) {
		n := expiring()
		return n == int64(len(ids)), fmt.Sprint(n)
	})
	<-time.After(2060 * time.Millisecond) // the second look comes 2.05 s after the first
	if err := worker.Thaw(); err != nil {
		t.Fatal(err)
	}
	outcomes := c.settled(30*time.Second, ids...)
	_, marks := executions(t, file)
	taken := 0
	for _, id := range ids {
		p := api.poll(id)
		starts := strings.Count(strings.Join(marks[id], "\n"), " start")
		var crashes int
		c.row(`SELECT COUNT(*) FROM job_attempts WHERE job_id = '`+id+`' AND outcome = 'HEARTBEAT_STOPPED'`, &crashes)
		if p.RetryCount != crashes || crashes > 1 || starts > 1+crashes || outcomes[id] != "COMPLETED" {
			t.Errorf("%s: %s, retryCount %d, %d crashes, ran %v", id, outcomes[id], p.RetryCount, crashes, marks[id])
		}
		taken += crashes
	}
	t.Logf("evidence: %d of %d jobs were taken back, the others were kept", taken, len(ids))
}
