package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

// Redis executes a call and its reply is lost, once for each script that a running server sends. Every job still
// runs once and ends once. (TestReplyLost of the queue covers the other scripts.)
func TestLostReplies(t *testing.T) {
	t.Attr("proves", "F27 S4-P3")
	t.Parallel()
	c := newCluster(t)
	proxy := testkit.NewProxy(t, c.redis.Addr())
	s := c.start("REDIS_URL="+proxy.URL(), "TIERQ_DRAIN_TIMEOUT=1s")
	file := filepath.Join(t.TempDir(), "runs")
	var ids []string
	for _, script := range []string{
		"submit", "claim", "heartbeat", "complete", "fail", "reclaim", "promote", "take_outbox", "acknowledge",
	} {
		before := len(proxy.Dropped())
		proxy.DropReply(testkit.IsScript(lua.Script(script)))
		fails := s.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
		takes := 700
		if script == "heartbeat" {
			takes = 2000 // long enough for a heartbeat, on a slow machine too
		}
		for range 4 {
			ids = append(ids, s.submit("paid", counting(file, takes)))
		}
		testkit.Eventually(t, 10*time.Second, "the reply of "+script+" is dropped", func() (bool, string) {
			n := len(proxy.Dropped())
			return n > before, fmt.Sprint(n)
		})
		drop := proxy.Dropped()[before]
		t.Logf("evidence: %s executed, its reply (%d bytes) dropped", script, len(drop.Reply))
		s.await(fails, "FAILED", 15*time.Second)
		for _, id := range ids[len(ids)-4:] {
			if p := s.await(id, "COMPLETED", 15*time.Second); p.RetryCount != 0 {
				t.Errorf("%s: a lost reply of %s cost %d retries", id, script, p.RetryCount)
			}
		}
	}
	c.settled(30*time.Second, ids...)
	order, marks := executions(t, file)
	for id, m := range marks {
		if len(m) != 2 {
			t.Errorf("%s ran %v", id, m)
		}
	}
	if len(order) != len(ids) {
		t.Errorf("%d runs of %d jobs", len(order), len(ids))
	}

	// Only a stopping server sends release.
	long := s.submit("paid", counting(file, 30_000))
	s.await(long, "PROCESSING", 5*time.Second)
	proxy.DropReply(testkit.IsScript(lua.Script("fail")))
	before := len(proxy.Dropped())
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.WaitExit(t.Context()); err != nil || code != 0 {
		t.Errorf("exit %d, %v", code, err)
	}
	if len(proxy.Dropped()) != before+1 {
		t.Fatal("no reply of release was dropped")
	}
	t.Log("evidence: release executed, its reply dropped")
	if p := c.start("TIERQ_ROLES=api").poll(long); p.Status != "PENDING" || p.RetryCount != 0 {
		t.Errorf("given back: %+v", p)
	}
	for _, wrong := range c.audit() {
		t.Error("audit: " + wrong)
	}
}
