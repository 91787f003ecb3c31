package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

const goldPlan = `{"priority":4,"maxRetries":0,"heartbeatTimeoutMs":3000,"maxProcessingTimeMs":10000,"share":60,` +
	`"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0},` +
	`"typeBackoff":{"SEND_EMAIL":{"baseMs":1000,"factor":3,"capMs":60000,"jitter":0.1}}}`

// An embedded server is killed at the promise of a requeue, in a tier that an operator added. After the next start
// the added tier and the changed one are as before, and the requeue is carried out.
func TestPlansOutliveAnEmbeddedServer(t *testing.T) {
	t.Attr("proves", "F52")
	t.Parallel()
	e := newEmbedded(t)
	e.start()
	dead, plans := e.server.addsGold()
	if err := e.server.Kill(); err != nil {
		t.Fatal(err)
	}
	e.env = []string{"TIERQ_FAILPOINTS=promise.after=kill"}
	e.start()
	e.server.hasPlans(plans)
	e.server.diesPromising(dead)
	e.env = nil
	e.start()
	e.server.hasPlans(plans)
	e.server.requeued(dead)
}

// Redis loses everything while all processes are down, one of them killed at a promise. It loses everything again
// while one process stands still and another one starts. Each time the plans are restored and the promised requeue
// is carried out.
func TestPlansOutliveRedis(t *testing.T) {
	t.Attr("proves", "F19 F52")
	t.Parallel()
	c := newCluster(t)
	first := c.start("TIERQ_JOURNAL=on")
	dead, plans := first.addsGold()
	first.terminate(20 * time.Second)
	c.start("TIERQ_JOURNAL=on", "TIERQ_FAILPOINTS=promise.after=kill").diesPromising(dead)
	c.flush()
	second := c.start("TIERQ_JOURNAL=on")
	second.hasPlans(plans)
	second.requeued(dead)

	if err := second.Freeze(); err != nil {
		t.Fatal(err)
	}
	c.flush()
	third := c.start("TIERQ_JOURNAL=on")
	third.hasPlans(plans)
	if err := second.Thaw(); err != nil {
		t.Fatal(err)
	}
	if a := third.ask("gold", "{}"); a.status != http.StatusAccepted {
		t.Errorf("a submit to the added tier: %d %s", a.status, a.body)
	}
	for range 3 { // neither process reverts the other one's plans
		second.hasPlans(plans)
		third.hasPlans(plans)
		<-time.After(400 * time.Millisecond)
	}
}

// A server of an older version, which writes plans to Redis only, runs beside this one. Its change reaches SQL a
// moment later, and so it outlives Redis too.
func TestPlansOfAnOlderServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	s.tune("PAID", map[string]any{"maxRetries": 8})
	c.plan("PAID", "maxRetries", 9, "version", 3) // as an older server's PUT does
	testkit.Eventually(t, 10*time.Second, "SQL has the older server's change", func() (bool, string) {
		var version int
		var plan string
		err := c.db.QueryRowContext(t.Context(), "SELECT version, plan FROM plans WHERE tier = 'PAID'").Scan(&version, &plan)
		return err == nil && version == 3 && strings.Contains(plan, `"maxRetries":9`), fmt.Sprint(version, plan, err)
	})
	s.terminate(20 * time.Second)
	c.flush()
	s = c.start()
	if p := s.plans()["PAID"]; p["maxRetries"] != 9.0 || p["version"] != 3.0 {
		t.Errorf("after Redis lost everything: %v", p)
	}
}

// Two processes change one plan at once, without naming the version that they saw. Each change gets a version of
// its own, and both stores have the last one.
func TestPlansChangedAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	servers := []*server{c.start("TIERQ_ROLES=api"), c.start("TIERQ_ROLES=api")}
	answered := make(chan string, 20)
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			for range cap(answered) / len(servers) {
				a := do(t, http.MethodPut, s.base+"/admin/tiers/GOLD", goldPlan)
				if a.status != http.StatusOK { // a busy machine's 503 or 504 promises nothing
					t.Logf("%d %s", a.status, a.body)
					continue
				}
				answered <- a.header.Get("ETag")
			}
		})
	}
	all.Wait()
	close(answered)
	versions := map[string]bool{}
	for v := range answered {
		if versions[v] {
			t.Errorf("two changes were answered version %s", v)
		}
		versions[v] = true
	}
	if len(versions) < cap(answered)/2 {
		t.Errorf("%d of %d changes were answered", len(versions), cap(answered))
	}
	testkit.Eventually(t, 10*time.Second, "both stores have the last change", func() (bool, string) {
		var inSQL int
		c.row("SELECT version FROM plans WHERE tier = 'GOLD'", &inSQL)
		inRedis := c.rdb.HGet(t.Context(), "{tierq}:system:config:tier:GOLD", "version").Val()
		all := inSQL == cap(answered) || len(versions) < cap(answered) && inSQL >= len(versions)
		return all && inRedis == strconv.Itoa(inSQL),
			fmt.Sprintf("%d answered, SQL has version %d, Redis %s", len(versions), inSQL, inRedis)
	})
}

func (c *cluster) flush() {
	c.t.Helper()
	if err := c.rdb.FlushAll(c.t.Context()).Err(); err != nil {
		c.t.Fatal(err)
	}
}

// addsGold adds the tier GOLD with a dead letter in it, and changes PAID. It returns the plans that the server
// then has.
func (s *server) addsGold() (dead string, plans map[string]map[string]any) {
	s.t.Helper()
	tries := 0
	testkit.Eventually(s.t, 10*time.Second, "the added tier is stored", func() (bool, string) {
		tries++
		a := do(s.t, http.MethodPut, s.base+"/admin/tiers/GOLD", goldPlan, "If-None-Match", "*")
		// On a busy machine SQL may be late (503), and an answer may be lost (504): then the next try finds the tier.
		stored := a.status == http.StatusOK || tries > 1 && a.status == http.StatusPreconditionFailed
		return stored, fmt.Sprintf("%d %s", a.status, a.body)
	})
	s.tune("PAID", map[string]any{"maxRetries": 9, "share": 90})
	dead = s.submit("gold", `{"payload":{"steps":[{"type":"FAIL","message":"no"}]}}`)
	s.await(dead, "FAILED", 15*time.Second)
	testkit.Eventually(s.t, 10*time.Second, "its dead letter is in SQL", func() (bool, string) {
		a := do(s.t, http.MethodGet, s.base+"/admin/dead?tier=GOLD", "")
		return strings.Contains(string(a.body), dead), string(a.body)
	})
	plans = s.plans()
	if plans["GOLD"] == nil || plans["PAID"]["maxRetries"] != 9.0 || len(plans) != 4 {
		s.t.Fatalf("plans %v", plans)
	}
	return dead, plans
}

// plans returns the plans of a server, by tier.
func (s *server) plans() map[string]map[string]any {
	s.t.Helper()
	plans := map[string]map[string]any{}
	for _, p := range get[struct{ Items []map[string]any }](s.t, s.base+"/admin/tiers").Items {
		plans[p["tier"].(string)] = p
	}
	return plans
}

func (s *server) hasPlans(want map[string]map[string]any) {
	s.t.Helper()
	got := s.plans()
	same := func(a, b map[string]any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
	if !maps.EqualFunc(got, want, same) {
		s.t.Errorf("plans %v, want %v", got, want)
	}
}

// diesPromising asks for a requeue, and the server is killed at its promise.
func (s *server) diesPromising(dead string) {
	s.t.Helper()
	if a, err := try(http.MethodPost, s.base+"/jobs/"+dead+"/retry", ""); err == nil {
		s.t.Fatalf("the requeue was answered: %d %s", a.status, a.body)
	}
	s.waitFor("failpoint promise.after hit", 10*time.Second)
	if _, err := s.WaitExit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// requeued waits until a dead letter has been requeued.
func (s *server) requeued(dead string) {
	s.t.Helper()
	testkit.Eventually(s.t, 30*time.Second, "the promised requeue is made", func() (bool, string) {
		a, err := try(http.MethodGet, s.base+"/api/jobs/"+dead, "")
		return err == nil && strings.Contains(string(a.body), `"generation":2`), string(a.body)
	})
}
