package e2e

import (
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// 3 clients submit 300 mixed jobs while no worker runs. Then one worker with one slot runs them: PAID, UNPAID,
// PUBLIC, and first in first out within each tier.
func TestOrder(t *testing.T) {
	t.Attr("proves", "S2-P2 S2-N3 T-3")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	file := filepath.Join(t.TempDir(), "runs")
	type accepted struct {
		id, tier string
		at       time.Time
	}
	var mu sync.Mutex
	var all []accepted
	var clients sync.WaitGroup
	for n := range 3 {
		clients.Go(func() {
			for i := range 100 {
				tier := []string{"public", "paid", "unpaid"}[(n+i)%3]
				id := api.submit(tier, counting(file, 0))
				mu.Lock()
				all = append(all, accepted{id: id, tier: tier})
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	ids := make([]string, len(all))
	for i := range all {
		p := api.poll(all[i].id)
		if p.Status != "PENDING" {
			t.Fatalf("%s is %s although no worker runs", p.JobID, p.Status)
		}
		all[i].at, ids[i] = p.ArrivedAt, all[i].id
	}
	rank := map[string]int{"paid": 1, "unpaid": 2, "public": 3}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if rank[a.tier] != rank[b.tier] {
			return rank[a.tier] < rank[b.tier]
		}
		if !a.at.Equal(b.at) {
			return a.at.Before(b.at)
		}
		return a.id < b.id
	})
	c.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=1")
	c.settled(30*time.Second, ids...)
	order, _ := executions(t, file)
	if len(order) != len(all) {
		t.Fatalf("%d runs of %d jobs", len(order), len(all))
	}
	for i := range all {
		if order[i] != all[i].id {
			t.Fatalf("run %d is %s, want %s (%s, %s)", i, order[i], all[i].id, all[i].tier, all[i].at)
		}
	}
}

// A job that was reclaimed after a crash returns to its own place: before the jobs that arrived after it, and
// behind better tiers.
func TestTakenBackKeepsItsPlace(t *testing.T) {
	t.Attr("proves", "S2-P3 S2-G10 T-3")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	doomed := c.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=1")
	file := filepath.Join(t.TempDir(), "runs")
	first := api.submit("public", counting(file, 30_000))
	testkit.Eventually(t, 5*time.Second, "it is running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 1, ""
	})
	var later []string
	for range 5 {
		later = append(later, api.submit("public", counting(file, 0)))
	}
	paid := api.submit("paid", counting(file, 0))
	if err := doomed.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Logf("evidence: killed pid %d with the lease open: %v", doomed.Pid(), c.leased(first))
	api.await(first, "PENDING", detected)
	c.rewrite(first, fmt.Sprintf(`{"file":%q,"sleepMs":0}`, file))
	c.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=1")
	c.settled(20*time.Second, append(later, first, paid)...)
	order, _ := executions(t, file)
	want := append([]string{first, paid, first}, later...)
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("ran in the order\n%v, want\n%v", order, want)
	}
}
