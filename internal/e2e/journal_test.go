package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Redis loses everything, by a FLUSHALL and by a restart without data. With the journal on every living job comes
// back, with its id, its arrival and its place, and a lost requeue is repeated. Each job ends once, also the one
// that a zombie held meanwhile and then reports.
func TestJournalOutlivesRedis(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	for _, loss := range []string{"FLUSHALL", "restarted empty"} {
		t.Run(loss, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			file := filepath.Join(t.TempDir(), "runs")
			api := c.start("TIERQ_ROLES=api,recovery", "TIERQ_JOURNAL=on")
			dead := api.submit("paid", `{"payload":{"steps":[{"type":"FAIL","message":"no"}]},"maxRetries":0}`)
			worker := c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on")
			api.await(dead, "FAILED", 10*time.Second)
			running := api.submit("paid", counting(file, 700))
			testkit.Eventually(t, 5*time.Second, "its handler runs", func() (bool, string) { // not only claimed
				_, marks := executions(t, file)
				return len(marks[running]) == 1, ""
			})
			worker.terminate(20 * time.Second) // the worker finishes its running job
			zombie := c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on", "TIERQ_WORKERS=1", "TIERQ_FAILPOINTS=handler.after=stop")
			held := api.submit("paid", counting(file, 0))
			zombie.waitFor("failpoint handler.after hit", 10*time.Second) // the worker stops here, before it reports
			var waiting []string
			for i := range 30 {
				waiting = append(waiting, api.submit([]string{"public", "unpaid", "paid"}[i/10], counting(file, 0)))
			}
			delayed := api.submit("paid", strings.TrimSuffix(counting(file, 0), "}")+`,"delaySeconds":2}`)
			keyed := do(t, http.MethodPost, api.base+"/public/submit", counting(file, 0), "Idempotency-Key", "the-one")
			requeued := do(t, http.MethodPost, api.base+"/jobs/"+dead+"/retry", "")
			if requeued.status >= 300 {
				t.Fatalf("requeue: %d %s", requeued.status, requeued.body)
			}
			all := append(slices.Clone(waiting), held, delayed, accepted(t, keyed))
			arrivals := map[string]time.Time{}
			for _, id := range all {
				arrivals[id] = api.poll(id).ArrivedAt
			}
			api.await(dead, "PENDING", 10*time.Second)

			if loss == "FLUSHALL" {
				if err := c.rdb.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				c.restartRedisEmpty()
			}
			t.Logf("evidence: %d keys after Redis was %s", len(c.rdb.Keys(t.Context(), "{tierq:0}:job*").Val()), loss)
			for _, id := range all {
				testkit.Eventually(t, 15*time.Second, id+" is known", func() (bool, string) {
					a, err := try(http.MethodGet, api.base+"/result/poll?jobId="+id, "")
					if err == nil && a.status == http.StatusNotFound {
						t.Fatalf("%s: 404 in between", id) // S16
					}
					return err == nil && a.status == http.StatusOK, fmt.Sprint(a.status)
				})
			}
			testkit.Eventually(t, 20*time.Second, "every job is back, the requeued one too", func() (bool, string) {
				n := c.rdb.ZCard(t.Context(), "{tierq:0}:main:queue").Val()
				return n == int64(len(all))+1, fmt.Sprint(n)
			})
			for id, at := range arrivals {
				if got := api.poll(id).ArrivedAt; !got.Equal(at) {
					t.Errorf("%s arrived %s, before the loss %s", id, got, at)
				}
			}
			if again := do(t, http.MethodPost, api.base+"/public/submit", counting(file, 0), "Idempotency-Key",
				"the-one"); accepted(t, again) != accepted(t, keyed) {
				t.Error("the key made another job")
			}
			c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on", "TIERQ_WORKERS=1")
			outcomes := c.settled(40*time.Second, append(all, running)...) // includes the requeued job: nothing waits afterwards
			for _, id := range append(all, running) {
				if outcomes[id] != "COMPLETED" {
					t.Errorf("%s ended %q", id, outcomes[id])
				}
			}
			if err := zombie.Thaw(); err != nil {
				t.Fatal(err)
			}
			zombie.waitFor("the ending came too late: the lease was lost", 10*time.Second)
			order, marks := executions(t, file)
			for id, m := range marks {
				if want := map[bool]int{true: 4, false: 2}[id == held]; len(m) != want {
					t.Errorf("%s ran %v, want %d marks", id, m, want)
				}
			}
			sorted := slices.Clone(waiting)
			slices.Reverse(sorted) // the tiers in reverse order; within a tier by arrival
			place := func(id string) int { return slices.Index(order, id) }
			for i := range waiting {
				for j := range i {
					better := i/10 > j/10 // a better tier
					if better != (place(waiting[i]) < place(waiting[j])) {
						t.Fatalf("job %d ran at %d, job %d at %d", i, place(waiting[i]), j, place(waiting[j]))
					}
				}
			}
			var rows, generations, once int
			c.row(`SELECT COUNT(*) FROM accepted_jobs`, &rows)
			c.row(`SELECT COUNT(*) FROM `+endings+` WHERE job_id = '`+dead+`'`, &generations)
			c.row(`SELECT COUNT(*) FROM `+endings+` WHERE job_id = '`+held+`'`, &once)
			if rows != 0 || generations != 2 || once != 1 {
				t.Errorf("%d rows left in the journal, %d generations of the requeued job, %d outcomes of the zombie's", rows,
					generations, once)
			}
		})
	}
}

// The end of Redis' AOF is cut at a random byte. Jobs that were accepted with 202 and cut off come back from the
// journal.
func TestJournalMendsACutTail(t *testing.T) {
	t.Attr("proves", "F17")
	t.Parallel()
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "runs")
	api := c.start("TIERQ_ROLES=api,recovery", "TIERQ_JOURNAL=on")
	worker := c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on", "TIERQ_WORKERS=4")
	var ids []string
	for i := range 120 {
		ids = append(ids, api.submit("paid", counting(file, i%20)))
	}
	if err := c.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	log := aof(t, c.redis)
	size, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	cut := size.Size() - 1 - rand.Int64N(size.Size()*2/3)
	if err := os.Truncate(log, cut); err != nil {
		t.Fatal(err)
	}
	if err := c.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	there := c.jobsInRedis()
	t.Logf("evidence: the AOF was cut from %d to %d bytes; Redis came back with %d of %d jobs", size.Size(), cut, there,
		len(ids))
	outcomes := c.settled(60*time.Second, ids...)
	for _, id := range ids {
		if outcomes[id] != "COMPLETED" {
			t.Errorf("%s ended %q", id, outcomes[id])
		}
	}
	worker.terminate(20 * time.Second)
}

// SQL is down while the journal is on. No job is accepted, every submit is answered, refused jobs never run, and
// the gate opens again.
func TestJournalNeedsSQL(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	file := filepath.Join(t.TempDir(), "runs")
	s := c.start("TIERQ_JOURNAL=on")
	before := s.submit("paid", counting(file, 0))
	s.await(before, "COMPLETED", 10*time.Second)
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	var refused, unknown int
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		a := do(t, http.MethodPost, s.base+"/paid/submit", counting(file, 0))
		if a.took > bound {
			t.Errorf("answered after %s", a.took)
		}
		switch a.status {
		case http.StatusServiceUnavailable:
			refused++
		case http.StatusGatewayTimeout:
			unknown++
		default:
			t.Errorf("%d %s while SQL is frozen", a.status, a.body)
		}
		<-time.After(20 * time.Millisecond)
	}
	wants(
		t, do(t, http.MethodPut, s.base+"/admin/tiers/PAID", goldPlan), http.StatusServiceUnavailable,
		"SYSTEM_UNHEALTHY",
	)
	if v := c.rdb.HGet(t.Context(), "{tierq}:system:config:tier:PAID", "version").Val(); v != "1" {
		t.Errorf("Redis has version %s of a plan that SQL could not store", v)
	}
	ready := do(t, http.MethodGet, s.base+"/readyz", "")
	if ready.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz %d: a server that can accept nothing is not ready", ready.status)
	}
	if err := m.Thaw(); err != nil {
		t.Fatal(err)
	}
	var after string
	testkit.Eventually(t, 10*time.Second, "it accepts again", func() (bool, string) {
		a := do(t, http.MethodPost, s.base+"/paid/submit", counting(file, 0))
		if a.status == http.StatusAccepted {
			after = accepted(t, a)
		}
		return a.status == http.StatusAccepted, string(a.body)
	})
	outcomes := c.settled(30*time.Second, before, after)
	_, marks := executions(t, file)
	if ran := len(marks) - 2; ran > unknown {
		t.Errorf("%d jobs ran that nobody was promised; %d were in doubt", ran, unknown)
	}
	t.Logf("evidence: frozen for 5 s: %d refused, %d in doubt, %d jobs ran in all, %d outcomes", refused, unknown,
		len(marks), len(outcomes))
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// restartRedisEmpty kills Redis and starts it without data.
func (c *cluster) restartRedisEmpty() {
	c.t.Helper()
	if err := c.redis.Kill(); err != nil {
		c.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.redis.Dir(), "appendonlydir")); err != nil {
		c.t.Fatal(err)
	}
	if err := c.redis.Restart(); err != nil {
		c.t.Fatal(err)
	}
}
