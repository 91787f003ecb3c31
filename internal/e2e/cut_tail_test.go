package e2e

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A power cut truncates the AOF at a random byte. Redis loads it, and only whole calls at its end are missing.
// Without a journal, the jobs submitted first are left, each in its place, and the later ones are lost.
func TestPowerCut(t *testing.T) {
	t.Attr("proves", "F17")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api")
	file := filepath.Join(t.TempDir(), "runs")
	const jobs = 120
	ids := make([]string, jobs)
	var first, before int64 // the file's size with one job, and before the last one
	for i := range ids {
		info, err := os.Stat(aof(t, c.redis))
		if err != nil {
			t.Fatal(err)
		}
		if before = info.Size(); i == 1 {
			first = before
		}
		ids[i] = s.submit("paid", counting(file, 0))
	}
	for _, off := range []func() error{s.Kill, c.redis.Kill} {
		if err := off(); err != nil {
			t.Fatal(err)
		}
	}
	cut := first + rand.Int64N(before-first)
	if err := os.Truncate(aof(t, c.redis), cut); err != nil {
		t.Fatal(err)
	}
	if err := c.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range c.audit() {
		t.Error("audit, as it was loaded: " + wrong)
	}
	kept := 0
	for kept < jobs && c.rdb.ZScore(t.Context(), "{tierq:0}:main:queue", ids[kept]).Err() == nil {
		kept++
	}
	if waiting := c.rdb.ZCard(t.Context(), "{tierq:0}:main:queue").Val(); kept == 0 || kept == jobs ||
		waiting != int64(kept) {
		t.Fatalf("the first %d of %d jobs are left, and %d wait", kept, jobs, waiting)
	}
	t.Logf("evidence: the AOF was cut at byte %d, between %d with one job and %d before the last; the first %d of %d "+
		"jobs are left", cut, first, before, kept, jobs)

	s = c.start()
	for _, id := range ids[kept:] {
		if a := do(t, http.MethodGet, s.base+"/result/poll?jobId="+id, ""); a.status != http.StatusNotFound {
			t.Errorf("a job that is lost: %d %s", a.status, a.body)
		}
	}
	left := append(ids[:kept:kept], s.submit("paid", counting(file, 0)))
	if got := c.settled(20*time.Second, left...); len(got) != len(left) {
		t.Errorf("%d outcomes of %d jobs", len(got), len(left))
	}
	if _, marks := executions(t, file); len(marks) != len(left) {
		t.Errorf("%d jobs ran, of %d that were left", len(marks), len(left))
	}
}
