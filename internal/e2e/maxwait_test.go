package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Jobs of a tier with a maxWait expire behind a pause, also after a restart of everything, and their callbacks run
// although they wait for longer than that.
func TestMaxWait(t *testing.T) {
	t.Parallel()
	bin := testkit.BuildTierq(t, "failpoint")
	dir, r := t.TempDir(), newReceiver(t, nil)
	start := func() *server {
		return startServer(t, bin, append(outward, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir)...)
	}
	s := start()
	plan := `{"priority":3,"maxRetries":1,"heartbeatTimeoutMs":3000,"maxProcessingTimeMs":10000,"share":60,` +
		`"maxWaitMs":2000,"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0}}`
	s.changes(http.MethodPut, "/admin/tiers/PUBLIC", plan, 200)
	s.changes(http.MethodPut, "/admin/paused/tier:public", `{"reason":"a migration"}`, 200)
	s.paused()
	id := s.submit("public", fmt.Sprintf(`{"callbackUrl":%q}`, r.URL+"/told"))
	if a := do(t, http.MethodPost, s.base+"/public/submit", `{"expiresIn":3}`); a.status != http.StatusBadRequest {
		t.Errorf("a longer time: %d %s", a.status, a.body)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s = start()
	s.await(id, "EXPIRED", 30*time.Second)
	testkit.Eventually(t, 20*time.Second, "the callback waits", func() (bool, string) {
		list := string(do(t, http.MethodGet, s.base+"/api/jobs?status=PENDING&tier=PUBLIC", "").body)
		return strings.Contains(list, `"type":"CALLBACK"`), list
	})
	job := string(do(t, http.MethodGet, s.base+"/api/jobs?status=PENDING&tier=PUBLIC", "").body)
	if strings.Contains(job, `"expiresAt":"2`) {
		t.Errorf("the callback expires: %s", job)
	}
	s.changes(http.MethodDelete, "/admin/paused/tier:public", "", 204)
	testkit.Eventually(t, 20*time.Second, "the callback", func() (bool, string) {
		calls := r.of(http.MethodPost, "/told")
		return len(calls) == 1 && strings.Contains(string(calls[0].body), "job.expired"), fmt.Sprint(len(calls))
	})
}
