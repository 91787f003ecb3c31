package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/testkit"
)

// While SQL is away, the page of an ended job that Redis still knows is a clear 503, because SQL has the attempts and a
// history with some of them would be wrong; the poll answers from Redis. When SQL is back, the page is there.
func TestEndedJobWhileSQLIsAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cfg, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = proxy.Addr()
	s := c.start("MYSQL_DSN=" + cfg.FormatDSN())
	id := s.submit("paid", `{"type":"SIMULATION"}`)
	s.await(id, "COMPLETED", 20*time.Second)
	testkit.Eventually(t, 20*time.Second, "SQL has the outcome", func() (bool, string) {
		return c.outbox() == 0, ""
	})
	page := func() answer { return do(t, http.MethodGet, s.base+"/jobs/"+id, "") }
	if a := page(); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	proxy.Refuse(true)
	proxy.Cut()
	if a := page(); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" ||
		!contains(a.body, `"errorCode":"`) || contains(a.body, `"history"`) {
		t.Errorf("without SQL: %d %v %s", a.status, a.header, a.body)
	} else {
		t.Logf("evidence: %s", a.body)
	}
	if a := do(t, http.MethodGet, s.base+"/result/poll?jobId="+id, ""); a.status != http.StatusOK {
		t.Errorf("a poll without SQL: %d %s", a.status, a.body)
	} else {
		t.Logf("evidence: %s", a.body)
	}
	proxy.Refuse(false)
	testkit.Eventually(t, 30*time.Second, "the page is back", func() (bool, string) {
		a := page()
		return a.status == http.StatusOK, string(a.body)
	})
}
