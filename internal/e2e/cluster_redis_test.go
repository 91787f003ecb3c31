package e2e

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

const sixth = 6 // partitions

// spread is a set of servers on a Redis Cluster of three masters with two partitions each.
type spread struct {
	*cluster // for its database
	nodes    *testkit.Cluster
	redis    redis.UniversalClient
}

func newSpread(t *testing.T) *spread {
	t.Helper()
	s := &spread{cluster: &cluster{t: t, dsn: databasetest.Migrated(t), bin: testkit.BuildTierq(t, "failpoint")},
		nodes: testkit.SharedCluster(t)}
	clients, err := queue.Connect(s.nodes.URL())
	if err != nil {
		t.Fatal(err)
	}
	s.redis = clients.Main
	t.Cleanup(func() { _ = clients.Close() })
	if s.db, err = sql.Open("mysql", s.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	return s
}

func (s *spread) start(env ...string) *server {
	s.t.Helper()
	return startServer(s.t, s.bin, append([]string{
		"REDIS_URL=" + s.nodes.URL(), "MYSQL_DSN=" + s.dsn, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DRAIN_TIMEOUT=5s",
		"TIERQ_DATA_DIR=" + s.t.TempDir(),
		"TIERQ_INSECURE=on",
		fmt.Sprint("TIERQ_PARTITIONS=", sixth),
	}, env...)...)
}

// rest waits until every id has an outcome and all partitions are empty, and audits all of them.
func (s *spread) rest(within time.Duration, ids []string) map[string]string {
	s.t.Helper()
	var outcomes map[string]string
	var wrong []string
	testkit.Eventually(s.t, within, fmt.Sprintf("%d jobs are in SQL and acknowledged", len(ids)), func() (bool, string) {
		outcomes, wrong = s.outcomes(), nil
		missing, waiting := 0, 0
		for _, id := range ids {
			if outcomes[id] == "" {
				missing++
			}
		}
		for p := range sixth {
			snapshot, err := queuetest.Read(context.Background(), s.redis, p)
			if err != nil {
				return false, err.Error()
			}
			for _, set := range snapshot.Sets {
				waiting += len(set)
			}
			wrong = append(wrong, snapshot.Audit()...)
		}
		return missing == 0 && waiting == 0,
			fmt.Sprintf("%d without an outcome, %d still in a set of Redis", missing, waiting)
	})
	for _, w := range wrong {
		s.t.Error("audit: " + w)
	}
	return outcomes
}

// Jobs of all tiers wait in six partitions on three servers, and one worker with one slot runs them. The jobs of
// each partition run in its order; the log says how far the whole is from one order.
func TestClusterOrder(t *testing.T) {
	t.Attr("proves", "S2-P2")
	t.Parallel()
	s := newSpread(t)
	api := s.start("TIERQ_ROLES=api,recovery")
	file := filepath.Join(t.TempDir(), "runs")
	var mu sync.Mutex
	var all []polled
	var clients sync.WaitGroup
	for n := range 3 {
		clients.Go(func() {
			for i := range 40 {
				p := api.poll(api.submit([]string{"public", "paid", "unpaid"}[(n+i)%3], counting(file, 0)))
				mu.Lock()
				all = append(all, p)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	rank := map[string]int{"PAID": 1, "UNPAID": 2, "PUBLIC": 3}
	slices.SortFunc(all, func(a, b polled) int {
		return cmp.Or(cmp.Compare(rank[a.Tier], rank[b.Tier]), a.ArrivedAt.Compare(b.ArrivedAt),
			cmp.Compare(a.JobID, b.JobID))
	})
	ids := make([]string, len(all))
	want := map[int][]string{}
	for i := range all {
		ids[i] = all[i].JobID
		p := job.ID(ids[i]).Partition()
		want[p] = append(want[p], ids[i])
	}
	if len(want) != sixth {
		t.Errorf("jobs in %d partitions", len(want))
	}
	s.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=1")
	s.rest(60*time.Second, ids)
	order, _ := executions(t, file)
	got := map[int][]string{}
	for _, id := range order {
		p := job.ID(id).Partition()
		got[p] = append(got[p], id)
	}
	for p := range want {
		if !slices.Equal(got[p], want[p]) {
			t.Errorf("partition %d ran\n%v, want\n%v", p, got[p], want[p])
		}
	}
	off, far := 0, 0
	for i, id := range order {
		if d := max(i-slices.Index(ids, id), slices.Index(ids, id)-i); d > 0 {
			off, far = off+1, max(far, d)
		}
	}
	t.Logf("evidence: of %d jobs in %d partitions, %d were not run at their place in the order of all, the worst %d places off", len(ids), sixth, off, far)
}

// All users' operations work on a cluster while a partition moves from one server to another. The partition is
// slow for a while, and refuses calls meanwhile. No job is lost or runs twice, and no list, poll or audit misses a
// server.
func TestClusterCarriesEverything(t *testing.T) {
	t.Attr("proves", "S1-S4 F28")
	t.Parallel()
	s := newSpread(t)
	servers := []*server{s.start("TIERQ_WORKERS=4"), s.start("TIERQ_WORKERS=4")}
	file := filepath.Join(t.TempDir(), "runs")
	var mu sync.Mutex
	expect, refused, enough := map[string]string{}, 0, make(chan struct{})
	var maybe []string
	accept := func(n, i int) {
		tier, body, outcome, cancel := []string{"paid", "unpaid", "public"}[i%3], counting(file, i%20), "COMPLETED", false
		var header []string
		switch i % 10 {
		case 1:
			body, outcome = `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`, "FAILED"
		case 2:
			body = strings.TrimSuffix(body, "}") + `,"delaySeconds":1}`
		case 3, 4:
			header = []string{"Idempotency-Key", fmt.Sprint("key-", n, "-", i)}
		case 5:
			body, outcome, cancel = `{"delaySeconds":3600}`, "CANCELLED", true
		}
		// A refused submit was not accepted: it is submitted again. A submit with an unknown outcome is repeated under
		// its key.
		testkit.Eventually(t, 60*time.Second, "a submit is accepted", func() (bool, string) {
			a, err := try(http.MethodPost, servers[n%2].base+"/"+tier+"/submit", body, header...)
			if err != nil {
				t.Error(err)
				return true, ""
			}
			switch {
			case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "":
				mu.Lock()
				defer mu.Unlock()
				refused++
				return false, string(a.body)
			case a.status == http.StatusGatewayTimeout && a.code() == "OUTCOME_UNKNOWN":
				var e struct {
					JobID string `json:"jobId"`
				}
				_ = json.Unmarshal(a.body, &e)
				mu.Lock()
				defer mu.Unlock()
				maybe = append(maybe, e.JobID)
				return false, string(a.body)
			case a.status != http.StatusAccepted:
				t.Errorf("%d %s", a.status, a.body)
				return true, ""
			}
			id := accepted(t, a)
			mu.Lock()
			expect[id] = outcome
			if len(expect) == 60 {
				close(enough)
			}
			mu.Unlock()
			if header != nil {
				if again, err := try(http.MethodPost, servers[(n+1)%2].base+"/"+tier+"/submit", body, header...); err == nil &&
					again.status == http.StatusAccepted && accepted(t, again) != id {
					t.Errorf("repeated under its key, %s is another job: %s", id, again.body)
				}
			}
			if cancel {
				servers[n%2].cancels(id)
			}
			return true, ""
		})
	}
	var clients sync.WaitGroup
	for n := range 3 {
		clients.Go(func() {
			for i := range 100 {
				accept(n, i)
			}
		})
	}
	<-enough
	key := queue.Key(2, "queue")
	from := s.nodes.Master(key)
	to := s.nodes.Nodes()[(slices.Index(s.nodes.Nodes(), from)+1)%3]
	m := s.nodes.StartMove(t, testkit.Slot(key), to)
	steps := 1
	for m.Step(t, 5) {
		steps++
	}
	m.Finish(t)
	clients.Wait()

	ids := make([]string, 0, len(expect))
	for id := range expect {
		ids = append(ids, id)
	}
	outcomes := s.rest(60*time.Second, ids)
	t.Logf("evidence: %d accepted, %d refused and %d unknown while a slot moved in %d steps", len(ids), refused,
		len(maybe), steps)
	unknown := map[string]bool{}
	for _, id := range maybe {
		unknown[id] = true
	}
	for id := range outcomes {
		if expect[id] == "" && !unknown[id] {
			t.Errorf("%s was never accepted", id)
		}
	}
	for id, want := range expect {
		if p := servers[1].poll(id); outcomes[id] != want || p.Status != want {
			t.Errorf("%s is %s in SQL and polled %s, want %s", id, outcomes[id], p.Status, want)
		}
	}
	_, marks := executions(t, file)
	for id, m := range marks {
		if len(m) != 2 {
			t.Errorf("%s ran %v", id, m)
		}
	}
	seen := map[string]int{}
	for _, r := range servers[0].list("/admin/jobs", "") {
		seen[cmp.Or(r.JobID, r.ID)]++
	}
	for id := range expect {
		if seen[id] != 1 {
			t.Errorf("%s is in the list %d times", id, seen[id])
		}
	}
	if a := do(t, http.MethodGet, servers[0].base+"/api/stats", ""); a.status != http.StatusOK {
		t.Errorf("stats: %d %s", a.status, a.body)
	}
	testkit.Eventually(t, 20*time.Second, "a pass finds nothing", func() (bool, string) {
		text, code := s.doctor(servers[0], "--repair")
		return code == 0 && strings.Contains(text, "ok      quarantine") && strings.Contains(text, "ok      audit"), text
	})
	if s.nodes.Master(key) != to {
		t.Error("the slot did not move")
	}
}

// cancels repeats a cancel until it succeeds: a moving partition refuses it for a while.
func (s *server) cancels(id string) {
	s.t.Helper()
	testkit.Eventually(s.t, 30*time.Second, "the cancel of "+id, func() (bool, string) {
		a, err := try(http.MethodDelete, s.base+"/admin/jobs/"+id, "")
		if err != nil {
			return false, err.Error()
		}
		if a.status >= 400 && a.status != http.StatusServiceUnavailable && a.status != http.StatusGatewayTimeout {
			s.t.Errorf("cancel of %s: %d %s", id, a.status, a.body)
			return true, ""
		}
		return a.status == http.StatusOK, string(a.body)
	})
}
