package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Every process is killed, and none runs for longer than a lease. Waiting jobs lose nothing, running jobs lose one
// run each, and all of them run again within the time limit of detection.
func TestEveryProcessKilled(t *testing.T) {
	t.Attr("proves", "F08")
	t.Parallel()
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "runs")
	var servers []*server
	for i := range 3 {
		servers = append(servers, c.start("TIERQ_WORKERS=2"))
		if i == 0 {
			for tier := range crashes {
				servers[0].tune(strings.ToUpper(tier), swiftly(tier))
			}
		}
	}
	tiers := map[string]string{}
	add := func(tier string, sleepMs int) string {
		id := servers[0].submit(tier, counting(file, sleepMs))
		tiers[id] = tier
		return id
	}
	running, waiting := map[string]bool{}, []string{}
	for _, tier := range []string{"paid", "unpaid", "public", "paid", "unpaid", "public"} {
		running[add(tier, 3000)] = true
	}
	testkit.Eventually(t, 5*time.Second, "six jobs are running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 6, fmt.Sprint(len(order))
	})
	for _, tier := range []string{"public", "unpaid", "public"} {
		waiting = append(waiting, add(tier, 0))
	}
	crashed := map[string]bool{}
	for _, s := range servers {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		crashed[fmt.Sprint(s.Pid())] = true
	}
	<-time.After(2 * time.Second) // four times a lease
	for id := range running {
		if !c.leased(id) {
			t.Errorf("%s is not held by the dead", id)
		}
	}
	t.Logf("evidence: %v are dead, and hold %d leases", crashed, len(running))

	for i := range servers {
		servers[i] = c.start("TIERQ_WORKERS=2")
	}
	back := time.Now()
	for _, id := range waiting {
		if p := servers[0].await(id, "COMPLETED", 5*time.Second); p.RetryCount != 0 {
			t.Errorf("%s waited and lost %d retries", id, p.RetryCount)
		}
	}
	testkit.Eventually(t, c.found("PAID"), "all six run again", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 6+3+6, fmt.Sprint(len(order))
	})
	t.Logf("running again after %s", time.Since(back).Round(10*time.Millisecond))
	ids := waiting
	for id := range running {
		ids = append(ids, id)
	}
	outcomes := c.settled(detected, ids...)
	spent := c.spent()
	for id, lost := range c.explained(file, tiers, crashed, outcomes) {
		if want := map[bool]int{true: 1}[running[id]]; spent[id] != 0 || lost != want {
			t.Errorf("%s %s lost %d runs, want %d, and %d retries", tiers[id], id, lost, want, spent[id])
		}
	}
}

// Processes stand still in the middle of their bookkeeping: a worker that has reported to Redis and not yet to
// SQL, and a drainer that has written to SQL and not yet acknowledged in Redis. Other processes finish both when
// the leases on the outbox entries expire. When the two wake, they change nothing.
func TestFrozenBookkeepers(t *testing.T) {
	t.Attr("proves", "F12")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api")
	drainer := c.start("TIERQ_ROLES=recovery", "TIERQ_FAILPOINTS=record.after=sleep:5s@1")
	worker := c.start("TIERQ_ROLES=worker", "TIERQ_FAILPOINTS=complete.after=sleep:5s@1")
	file := filepath.Join(t.TempDir(), "runs")
	dead := api.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
	drainer.waitFor("failpoint record.after hit", detected)
	done := api.submit("public", counting(file, 0))
	worker.waitFor("failpoint complete.after hit", detected)
	for _, s := range []*server{drainer, worker} {
		if err := s.Freeze(); err != nil { // while it sleeps at its failpoint
			t.Fatal(err)
		}
		t.Logf("evidence: %s; pid %d stands still", line(s.Output(), "failpoint"), s.Pid())
	}
	for _, id := range []string{dead, done} {
		if err := c.rdb.ZScore(t.Context(), "{tierq:0}:outbox", id).Err(); err != nil {
			t.Errorf("%s is not in the outbox: %v", id, err)
		}
	}

	c.start("TIERQ_ROLES=recovery")
	c.start("TIERQ_ROLES=worker")
	other := api.submit("public", counting(file, 0))
	api.await(other, "COMPLETED", 5*time.Second)
	outcomes := c.settled(20*time.Second, dead, done, other)
	if outcomes[dead] != "FAILED" || outcomes[done] != "COMPLETED" {
		t.Errorf("outcomes %v", outcomes)
	}
	for _, s := range []*server{drainer, worker} {
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{dead, done, other}
	for range 20 {
		ids = append(ids, api.submit("public", counting(file, 0)))
	}
	for _, s := range []*server{drainer, worker} {
		if code, _ := s.terminate(15 * time.Second); code != 0 { // a drain finishes the work they still held
			t.Errorf("exit %d after the standstill", code)
		}
	}
	c.settled(20*time.Second, ids...)
	if _, marks := executions(t, file); len(marks[done]) != 2 {
		t.Errorf("runs of the job whose worker stood still: %v", marks[done])
	}
}

// On one thread, with constant garbage collection and little memory, processes are killed all the time. No job is
// lost or runs twice.
func TestKillsInTightQuarters(t *testing.T) {
	t.Attr("proves", "F58")
	t.Parallel()
	heavy(t)
	c := newCluster(t)
	tight := []string{"GOMAXPROCS=1", "GOGC=10", "GOMEMLIMIT=24MiB", "TIERQ_WORKERS=8"}
	api := c.start(append(tight, "TIERQ_ROLES=api,recovery")...)
	for tier := range crashes {
		api.tune(strings.ToUpper(tier), swiftly(tier))
	}
	file := filepath.Join(t.TempDir(), "runs")
	tiers, crashed, ids := map[string]string{}, map[string]bool{}, []string{}
	workers := []*server{c.start(tight...), c.start(tight...)}
	const kills = 8
	for n := range kills {
		for i := range 60 {
			tier := []string{"paid", "unpaid", "public"}[i%3]
			id := api.submit(tier, counting(file, 50+rand.IntN(400)))
			tiers[id] = tier
			ids = append(ids, id)
		}
		<-time.After(rand.N(300 * time.Millisecond))
		victim := workers[n%2]
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		crashed[fmt.Sprint(victim.Pid())] = true
		workers[n%2] = c.start(tight...)
	}
	outcomes := c.settled(detected+20*time.Second, ids...)
	lost, failed := 0, 0
	for _, n := range c.explained(file, tiers, crashed, outcomes) {
		lost += n
	}
	for _, o := range outcomes {
		if o == "FAILED" {
			failed++
		}
	}
	t.Logf("%d kills, %d jobs, %d runs cut off, %d jobs dead after that", kills, len(ids), lost, failed)
	if len(outcomes) != len(ids) || lost == 0 {
		t.Errorf("%d outcomes for %d jobs, %d runs cut off: the kills must meet some", len(outcomes), len(ids), lost)
	}
	var wrong int
	c.row(`SELECT COUNT(*) FROM failed_jobs WHERE failure_cause <> 'HEARTBEAT_STOPPED'`, &wrong)
	if wrong != 0 {
		t.Errorf("%d dead letters for another reason than the kills", wrong)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if code, err := api.WaitExit(ctx); err == nil {
		t.Errorf("the server ended by itself: %d", code)
	}
}
