package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// tune changes fields of a tier's plan. This server uses the plan at once, other servers when they start or within
// a second.
func (s *server) tune(tier string, fields map[string]any) {
	s.t.Helper()
	plan := get[map[string]any](s.t, s.base+"/admin/tiers/"+tier)
	delete(plan, "tier")
	delete(plan, "version")
	maps.Copy(plan, fields)
	body, err := json.Marshal(plan)
	if err != nil {
		s.t.Fatal(err)
	}
	// On a busy machine SQL may be late, and the answer 503: then tune repeats the call.
	testkit.Eventually(s.t, 10*time.Second, "the plan is stored", func() (bool, string) {
		a := do(s.t, http.MethodPut, s.base+"/admin/tiers/"+tier, string(body))
		return a.status == http.StatusOK, fmt.Sprintf("%d %s", a.status, a.body)
	})
}

// backoff returns the plan's field for a constant wait; 0 is no wait.
func backoff(ms int) map[string]any {
	return map[string]any{"baseMs": ms, "factor": 1, "capMs": ms, "jitter": 0}
}

// ask submits with POST /<tier>/submit and returns any answer.
func (s *server) ask(tier, body string, header ...string) answer {
	s.t.Helper()
	return do(s.t, http.MethodPost, s.base+"/"+tier+"/submit", body, header...)
}

// quiet waits until no job waits in Redis, and audits. Unlike settled it supports requeued jobs.
func (c *cluster) quiet(within time.Duration) {
	c.t.Helper()
	testkit.Eventually(c.t, within, "nothing waits in Redis, and SQL owes it nothing", func() (bool, string) {
		s, err := queuetest.Read(c.t.Context(), c.rdb, 0)
		if err != nil {
			return false, err.Error()
		}
		waiting := 0
		for _, set := range s.Sets {
			waiting += len(set)
		}
		owed := 0
		c.row("SELECT COUNT(*) FROM accepted_jobs WHERE run_id = ''", &owed)
		return waiting+owed == 0, fmt.Sprintf("%d in a set, %d owed", waiting, owed)
	})
	for _, wrong := range c.audit() {
		c.t.Error("audit: " + wrong)
	}
}

// counts waits until a query counts this many.
func (c *cluster) counts(want int, query string) {
	c.t.Helper()
	testkit.Eventually(c.t, 20*time.Second, fmt.Sprintf("%s: %d", query, want), func() (bool, string) {
		var n int
		c.row(query, &n)
		return n == want, strconv.Itoa(n)
	})
}
