package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// twoLives returns the body of a job that fails for good, and that succeeds after a requeue once file can be
// written. mend makes file writable.
func twoLives(t testing.TB) (body, file string, mend func()) {
	dir := filepath.Join(t.TempDir(), "later")
	file = filepath.Join(dir, "runs")
	return strings.TrimSuffix(counting(file, 0), "}") + `,"maxRetries":0}`, file, func() {
		t.Helper()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// requeue repeats the requeue of a FAILED job until it is accepted. It is refused while Redis does not know yet
// that SQL has the failure.
func (s *server) requeue(id string) {
	s.t.Helper()
	testkit.Eventually(s.t, 20*time.Second, "it is requeued", func() (bool, string) {
		a := do(s.t, http.MethodPost, s.base+"/jobs/"+id+"/retry", "")
		return a.status == http.StatusAccepted, string(a.body)
	})
}

// retries requeues a FAILED job and waits until it is PENDING.
func (s *server) retries(id string) {
	s.t.Helper()
	s.requeue(id)
	s.await(id, "PENDING", 20*time.Second)
}

// promisedThenLost has a job requeued, and then makes Redis lose everything: with its embedded server, or by a
// FLUSHALL with the journal on. between is called while the requeued job waits, without a worker. The server that
// starts afterwards runs the job.
func promisedThenLost(t testing.TB, how string, between func(s *server, id string)) (s *server, id, file string) {
	body, file, mend := twoLives(t)
	if how == "embedded, killed" {
		// The second outcome written to SQL is another job's. The writer then sleeps, and writes nothing more.
		e := newEmbedded(t, "TIERQ_WORKERS=1", "TIERQ_FAILPOINTS=record.after=sleep:1m@2")
		e.start()
		id = e.server.submit("public", body)
		e.server.await(id, "FAILED", 20*time.Second)
		mend()
		busy := e.server.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":40000}]}}`)
		e.server.await(busy, "PROCESSING", 20*time.Second)
		e.server.retries(id)
		e.server.cancels(e.server.submit("paid", `{"delaySeconds":3600}`))
		e.server.waitFor("failpoint record.after hit", 20*time.Second)
		between(e.server, id)
		if err := e.server.Kill(); err != nil {
			t.Fatal(err)
		}
		e.env = []string{"TIERQ_WORKERS=2"}
		e.start()
		return e.server, id, file
	}
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api", "TIERQ_JOURNAL=on")
	worker := c.start("TIERQ_ROLES=worker,recovery", "TIERQ_JOURNAL=on")
	id = api.submit("public", body)
	c.settled(20*time.Second, id)
	worker.terminate(20 * time.Second)
	mend()
	api.retries(id)
	between(api, id)
	if err := c.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return c.start("TIERQ_JOURNAL=on"), id, file
}

var promiseLosses = []string{"embedded, killed", "FLUSHALL"}

// A cancel that was answered also holds for a requeued job: Redis loses both before SQL has the end, and the job
// does not run.
func TestCancelOfARequeuedJobOutlivesRedis(t *testing.T) {
	t.Parallel()
	for _, how := range promiseLosses {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, id, file := promisedThenLost(t, how, func(s *server, id string) {
				if a := do(t, http.MethodDelete, s.base+"/admin/jobs/"+id, ""); a.status != http.StatusOK {
					t.Fatalf("cancel: %d %s", a.status, a.body)
				}
			})
			testkit.Eventually(t, 30*time.Second, "it has ended", func() (bool, string) {
				_, marks := executions(t, file)
				status := s.poll(id).Status
				return len(marks[id]) > 0 || status == "CANCELLED", status
			})
			if _, marks := executions(t, file); len(marks[id]) > 0 {
				t.Fatalf("the cancelled job ran: %v", marks[id])
			}
		})
	}
}

// After the 202 of a retry no poll shows FAILED again, also after Redis has lost the requeued job.
func TestRetryIsNotToldAsFailed(t *testing.T) {
	t.Parallel()
	for _, how := range promiseLosses {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, id, file := promisedThenLost(t, how, func(*server, string) {})
			if p := s.poll(id); p.Status == "FAILED" {
				t.Errorf("a poll says FAILED")
			}
			watch := testkit.StartProcess(t, testkit.BuildTierq(t, "failpoint"), []string{"TIERQ_URL=" + s.base}, "watch", id)
			api := sdk.New(s.base)
			defer api.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := api.Wait(ctx, id); errors.As(err, new(*sdk.JobFailedError)) {
				t.Errorf("client.Wait says FAILED")
			} else if err != nil {
				t.Errorf("client.Wait: %v", err)
			}
			if code, err := watch.WaitExit(ctx); err != nil {
				t.Errorf("tierq watch: %v", err)
			} else if code != 0 {
				t.Errorf("tierq watch says FAILED: exit %d", code)
			}
			s.await(id, "COMPLETED", 30*time.Second)
			if _, marks := executions(t, file); len(marks[id]) != 2 {
				t.Errorf("its second life: %v", marks[id])
			}
		})
	}
}

// A process stands still between the promise of a requeue and its script. Meanwhile another process carries the
// requeue out, the job ends, and Redis forgets it. When the first process goes on, the job does not run again.
func TestFinishedLifeDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	body, file, mend := twoLives(t)
	well := c.start("TIERQ_WORKERS=2")
	stopped := c.start("TIERQ_ROLES=api", "TIERQ_FAILPOINTS=promise.after=stop")
	id := well.submit("public", body)
	c.settled(20*time.Second, id)
	mend()
	answered := make(chan error, 1)
	go func() {
		patient := &http.Client{Timeout: time.Minute}
		a, err := tryOn(patient, http.MethodPost, stopped.base+"/jobs/"+id+"/retry", "")
		if err == nil && a.status != http.StatusAccepted {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		answered <- err
	}()
	stopped.waitFor("failpoint promise.after hit", 20*time.Second)
	well.await(id, "COMPLETED", 60*time.Second) // its reconciler restores a row that is five seconds old
	testkit.Eventually(t, 20*time.Second, "Redis knows that SQL has it", func() (bool, string) {
		n := c.rdb.ZCard(t.Context(), "{tierq:0}:outbox").Val()
		return n == 0, fmt.Sprint(n)
	})
	c.forget(id) // as after its retention
	if err := stopped.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if c.has(id) {
		_, marks := executions(t, file)
		t.Fatalf("the finished life began again: %v", marks[id])
	}
}
