package e2e

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A worker whose build does not know a job's type leaves the job its retries: another worker may know it.
func TestUnknownTypeSpendsNoRetry(t *testing.T) {
	t.Parallel()
	testkit.KnownRed(t, "a worker that does not know a job's type spends the job's retries", func(t testing.TB) {
		c := newCluster(t)
		api := c.start("TIERQ_ROLES=api,recovery")
		c.bin = testkit.BuildTierq(t) // without the job types of tests
		c.start("TIERQ_ROLES=worker")
		id := api.submit("paid", counting(t.TempDir()+"/runs", 0))
		var j wholeJob
		testkit.Eventually(t, 20*time.Second, "a worker gave it up", func() (bool, string) {
			j = api.job(id)
			return len(j.History) > 0 && j.Status != "PROCESSING", j.Status
		})
		if j.RetryCount > 0 {
			t.Fatalf("the worker that does not know the type spent %d retries", j.RetryCount)
		}
	}, "that does not know the type spent")
}
