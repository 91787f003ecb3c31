package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// paused returns the scopes that are paused, once every process that claims jobs knows.
func (s *server) paused() (scopes []string) {
	s.t.Helper()
	testkit.Eventually(s.t, 10*time.Second, "all processes know what is paused", func() (bool, string) {
		now := get[struct {
			InForce bool
			Items   []struct{ Scope string }
		}](s.t, s.base+"/admin/paused")
		scopes = nil
		for _, one := range now.Items {
			scopes = append(scopes, one.Scope)
		}
		return now.InForce, fmt.Sprintf("%+v", now)
	})
	return scopes
}

// A flood of long PUBLIC jobs leaves PAID its own slots: a PAID job starts at once, whichever process accepted it.
func TestOwnSlots(t *testing.T) {
	t.Parallel()
	const long = `{"payload":{"steps":[{"type":"SLEEP","durationMs":8000}]}}`
	c := newCluster(t)
	a := c.start("TIERQ_WORKERS=3")
	b := c.start("TIERQ_WORKERS=3")
	a.tune("PAID", map[string]any{"ownSlots": 1})
	<-time.After(1500 * time.Millisecond) // by then both have read it
	for range 30 {
		a.submit("public", long)
	}
	running := func() (n int) {
		for _, one := range get[struct {
			Tiers []struct {
				Tier     string
				InFlight int
			}
		}](t, a.base+"/api/stats").Tiers {
			if one.Tier == "PUBLIC" {
				n = one.InFlight
			}
		}
		return n
	}
	testkit.Eventually(t, 10*time.Second, "PUBLIC has all common slots", func() (bool, string) {
		n := running()
		return n == 4, fmt.Sprint(n, " run")
	})
	for i := range 6 {
		s := []*server{a, b}[i%2]
		s.await(s.submit("paid", "{}"), "COMPLETED", 2*time.Second)
	}
	if n := running(); n > 4 {
		t.Errorf("%d PUBLIC jobs run in 4 common slots", n)
	}
	waiting := get[struct{ Items []struct{ JobID string } }](t, a.base+"/api/jobs?status=PENDING&tier=PUBLIC").Items
	testkit.Eventually(t, 10*time.Second, "why says whose slots are free", func() (bool, string) {
		why := do(t, http.MethodGet, a.base+"/api/jobs/"+waiting[0].JobID+"/why", "")
		return strings.Contains(string(why.body), "2 slots are free and belong to PAID"), string(why.body)
	})
	if metrics := string(do(t, http.MethodGet, a.base+"/metrics", "").body); !strings.Contains(metrics,
		`tierq_slots{kind="own",state="free",tier="PAID"} 1`) {
		t.Error("the metrics do not have PAID's free slot")
	}
}

// A pause holds over the restart of everything: of a Redis that comes back empty, with the server; and of an embedded
// server. It says who knows, refuses submits if it was asked to, and ends by a resumption.
func TestPause_SurvivesARestart(t *testing.T) {
	t.Parallel()
	bin := testkit.BuildTierq(t, "failpoint")
	for name, world := range map[string]func(t *testing.T) (start func() *server, lose func()){
		"redis, emptied": func(t *testing.T) (func() *server, func()) {
			c := newCluster(t)
			return func() *server { return c.start("TIERQ_JOURNAL=on") }, c.restartRedisEmpty
		},
		"embedded": func(t *testing.T) (func() *server, func()) {
			dir := t.TempDir()
			return func() *server { return startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir) }, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start, lose := world(t)
			s := start()
			s.changes(http.MethodPut, "/admin/paused/tier:public", `{"reason":"a migration","forSeconds":3600}`, 200)
			s.changes(http.MethodPut, "/admin/paused/queue:main", `{"refuse":true}`, 200)
			if got := s.paused(); !slices.Equal(got, []string{"queue:main", "tier:PUBLIC"}) {
				t.Errorf("paused are %q", got)
			}
			if a := s.ask("paid", "{}"); a.status != 503 || a.code() != "PAUSED" || a.header.Get("Retry-After") == "" {
				t.Errorf("a submit that is to be refused: %d %s", a.status, a.body)
			}
			s.changes(http.MethodDelete, "/admin/paused/queue:main", "", 204)
			held := s.submit("public", "{}")
			s.await(s.submit("paid", "{}"), "COMPLETED", 20*time.Second)

			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			lose()
			s = start()
			if got := s.paused(); !slices.Equal(got, []string{"tier:PUBLIC"}) {
				t.Errorf("paused are %q after the restart", got)
			}
			s.await(s.submit("paid", "{}"), "COMPLETED", 20*time.Second)
			if p := s.poll(held); p.Status != "PENDING" {
				t.Errorf("a paused job is %s after the restart", p.Status)
			}
			why := do(t, http.MethodGet, s.base+"/api/jobs/"+held+"/why", "")
			if !strings.Contains(string(why.body), "PUBLIC is paused since ") ||
				!strings.Contains(string(why.body), ": a migration") {
				t.Errorf("why does not say that the tier is paused: %s", why.body)
			}
			s.changes(http.MethodDelete, "/admin/paused/tier:PUBLIC", "", 204)
			s.await(held, "COMPLETED", 20*time.Second)
			if got := s.paused(); got != nil {
				t.Errorf("paused are %q", got)
			}
		})
	}
}
