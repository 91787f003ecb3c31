package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// Flows and batches with their jobs are made while Redis and SQL hang and die, and each call is repeated afterwards
// with its Idempotency-Key. At no time SQL has a part of a group; in the end each key has made one group, all of its
// jobs have run, and no place is left.
func TestGroups_Faults(t *testing.T) {
	t.Attr("proves", "F07 F54")
	t.Parallel()
	heavy(t)
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	s := c.start()
	const each = 5
	node := func(after string) string { return `{"type":"SIMULATION","tier":"paid","after":[` + after + `]}` }
	groups := map[string]string{
		"/api/flows": `{"jobs":{"a":` + node("") + `,"b":` + node(`"a"`) + `,"c":` + node(`"a"`) +
			`,"d":` + node(`"b","c"`) + `,"e":` + node("") + `}}`,
		"/api/batches": `{"name":"n","sealed":true,"jobs":[` + strings.Repeat(`{"type":"SIMULATION"},`, each-1) +
			`{"type":"SIMULATION"}],"then":{"type":"SIMULATION"}}`,
	}
	type call struct{ path, key string }
	var mu sync.Mutex
	var calls []call
	unanswered := 0
	makes := func(of call) bool {
		a, err := try(http.MethodPost, s.base+of.path, groups[of.path], "Idempotency-Key", of.key)
		return err == nil && a.status < 300
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for caller := range 6 {
		callers.Go(func() {
			path := []string{"/api/flows", "/api/batches"}[caller%2]
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(30 * time.Millisecond):
				}
				of := call{path, fmt.Sprint(caller, "-", n)}
				made := makes(of)
				mu.Lock()
				calls = append(calls, of)
				if !made {
					unanswered++
				}
				mu.Unlock()
			}
		})
	}
	hangs := func(freeze, thaw func() error) func() {
		return func() {
			if err := freeze(); err != nil {
				t.Fatal(err)
			}
			<-time.After(1500 * time.Millisecond)
			if err := thaw(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, fault := range []func(){
		hangs(m.Freeze, m.Thaw), hangs(c.redis.Freeze, c.redis.Thaw), hangs(m.Kill, m.Restart),
		hangs(c.redis.Kill, c.redis.Restart), hangs(m.Freeze, m.Thaw), hangs(c.redis.Freeze, c.redis.Thaw),
	} {
		<-time.After(300 * time.Millisecond)
		fault()
	}
	close(stop)
	callers.Wait()
	parts := func() {
		t.Helper()
		var n int
		c.row("SELECT COUNT(*) FROM (SELECT f.id FROM flows f LEFT JOIN flow_jobs j ON j.flow_id = f.id GROUP BY f.id "+
			"HAVING COUNT(j.job_id) <> 5) x", &n)
		if n > 0 {
			t.Errorf("%d flows lack jobs", n)
		}
		c.row("SELECT COUNT(*) FROM (SELECT b.id FROM batches b LEFT JOIN batch_members m ON m.batch_id = b.id "+
			"GROUP BY b.id HAVING COUNT(m.job_id) <> 5) x", &n)
		if n > 0 {
			t.Errorf("%d batches lack members", n)
		}
	}
	parts()
	want := 0
	for _, of := range calls {
		testkit.Eventually(t, 30*time.Second, of.path+" is answered", func() (bool, string) { return makes(of), "" })
		if want += each; of.path == "/api/batches" {
			want++
		}
	}
	parts()
	testkit.Eventually(t, 60*time.Second, "all have ended, once", func() (bool, string) {
		young := c.rdb.ZCard(t.Context(), queue.Key(0, "reserving")).Val()
		left := c.rdb.HLen(t.Context(), queue.Key(0, "reserved")).Val()
		return c.ended() == want && young == 0 && left == 0, fmt.Sprint(c.ended(), " of ", want, ", places ", young, left)
	})
	if unanswered == 0 || len(calls) < 50 {
		t.Errorf("%d calls, %d were not answered: too few", len(calls), unanswered)
	}
	t.Logf("evidence: %d flows and batches, %d calls refused or not answered at first", len(calls), unanswered)
	if found := append(c.audit(), c.findingsOf(s, "")...); len(found) > 0 {
		t.Errorf("the audits found %q", found)
	}
}
