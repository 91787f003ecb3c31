package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// workerRow is a worker in the list of operators.
type workerRow struct {
	Name, Kind, State, Language string
	PID, Slots                  int
	Queues                      []string
}

// listed waits until such a worker is listed.
func (s *server) listed(is func(w workerRow) bool) workerRow {
	s.t.Helper()
	return s.listedWithin(20*time.Second, is)
}

func (s *server) listedWithin(most time.Duration, is func(w workerRow) bool) (found workerRow) {
	s.t.Helper()
	testkit.Eventually(s.t, most, "the worker is listed", func() (bool, string) {
		a := do(s.t, http.MethodGet, s.base+"/admin/workers", "")
		var list struct{ Items []workerRow }
		if err := json.Unmarshal(a.body, &list); err != nil {
			s.t.Fatalf("%v in %s", err, a.body)
		}
		for _, w := range list.Items {
			if is(w) {
				found = w
				return true, ""
			}
		}
		return false, string(a.body)
	})
	return found
}

// A pool that an operator makes quiet, over HTTP or with a signal, finishes its job and claims no other; after a resume
// it claims again; and it ends when it is told to.
func TestWorkersAreAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	front := c.start("TIERQ_ROLES=api,recovery")
	pool := c.start("TIERQ_ROLES=worker")
	mine := func(state string) func(workerRow) bool {
		return func(w workerRow) bool { return w.PID == pool.Pid() && w.State == state }
	}
	name := front.listed(mine("run")).Name
	running := front.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":3000}]}}`)
	front.await(running, "PROCESSING", 20*time.Second)
	front.changes(http.MethodPost, "/admin/workers/"+name+"/quiet", "", 200)
	front.listed(mine("quiet"))
	pool.waitFor("whether to claim jobs", 20*time.Second)
	waiting := front.submit("paid", "{}")
	front.await(running, "COMPLETED", 20*time.Second)
	<-time.After(2 * time.Second)
	if p := front.poll(waiting); p.Status != "PENDING" {
		t.Errorf("a quiet pool took a job: %s", p.Status)
	}
	front.changes(http.MethodPost, "/admin/workers/"+name+"/resume", "", 200)
	front.await(waiting, "COMPLETED", 20*time.Second)
	front.listed(mine("run")) // the list may still say that it is quiet

	if err := pool.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	front.listed(mine("quiet"))
	waiting = front.submit("paid", "{}")
	<-time.After(2 * time.Second)
	if p := front.poll(waiting); p.Status != "PENDING" {
		t.Errorf("after SIGUSR1 the pool took a job: %s", p.Status)
	}
	front.changes(http.MethodPost, "/admin/workers/"+name+"/terminate", "", 200)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if code, err := pool.WaitExit(ctx); err != nil || code != 0 {
		t.Errorf("exit %d, %v", code, err)
	}
	c.start("TIERQ_ROLES=worker")
	front.await(waiting, "COMPLETED", 20*time.Second)
	c.quiet(20 * time.Second)
}
