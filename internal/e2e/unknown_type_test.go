package e2e

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// In a rolling deployment a job's type may be new to a worker that claims the job. The job then keeps its retries,
// says what it waits for, and runs as soon as a worker that knows its type takes it.
func TestUnknownTypeSpendsNoRetry(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	known := c.bin
	api := c.start("TIERQ_ROLES=api,recovery")
	c.bin = testkit.BuildTierq(t) // without the job types of tests
	old := c.start("TIERQ_ROLES=worker")
	id := api.submit("paid", counting(t.TempDir()+"/runs", 0))
	var j wholeJob
	testkit.Eventually(t, 20*time.Second, "the old worker gave it back", func() (bool, string) {
		j = api.job(id)
		return len(j.History) > 0 && j.Status == "SCHEDULED", j.Status
	})
	if j.RetryCount > 0 || j.LastError == nil || *j.LastError != "no worker knows this type" {
		t.Fatalf("after a worker that does not know the type: %d retries, %v", j.RetryCount, j.LastError)
	}
	c.bin = known
	c.start("TIERQ_ROLES=worker")
	old.terminate(20 * time.Second)
	testkit.Eventually(t, 30*time.Second, "the new worker ran it", func() (bool, string) {
		j = api.job(id)
		return j.Status == "COMPLETED", j.Status
	})
	if j.RetryCount > 0 {
		t.Fatalf("the job spent %d retries", j.RetryCount)
	}
}

// A job whose type no worker knows is a dead letter after TIERQ_UNKNOWN_FOR.
func TestUnknownTypeDiesInTheEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery", "TIERQ_UNKNOWN_FOR=1s")
	c.bin = testkit.BuildTierq(t) // without the job types of tests
	c.start("TIERQ_ROLES=worker", "TIERQ_UNKNOWN_FOR=1s")
	id := api.submit("paid", counting(t.TempDir()+"/runs", 0))
	var j wholeJob
	testkit.Eventually(t, 30*time.Second, "it failed", func() (bool, string) {
		j = api.job(id)
		return j.Status == "FAILED", j.Status
	})
	var retries int
	c.settled(20*time.Second, id)
	c.row(`SELECT total_retries FROM failed_jobs WHERE failure_cause = 'UNKNOWN_JOB_TYPE'`, &retries)
	if retries != 0 {
		t.Fatalf("it failed with %d retries", retries)
	}
}
