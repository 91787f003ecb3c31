package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// A process that only runs jobs has its metrics and its health on an address of their own, and nothing else there.
func TestOpsListener_S1_E7(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api, worker := c.start("TIERQ_ROLES=api"), c.start("TIERQ_ROLES=worker,recovery", "TIERQ_OPS_ADDR=127.0.0.1:0")
	at := regexp.MustCompile(`metrics       (http://\S+)/metrics`).FindStringSubmatch(worker.Output())
	if at == nil {
		t.Fatal("the banner does not name it")
	}
	id := api.submit("paid", "")
	c.settled(15e9, id)
	a := do(t, http.MethodGet, at[1]+"/metrics", "")
	if !strings.Contains(string(a.body), `tierq_jobs_finished_total{outcome="COMPLETED",tier="PAID"} 1`) {
		t.Errorf("%d %.300s", a.status, a.body)
	}
	wants(t, do(t, http.MethodGet, at[1]+"/readyz", ""), http.StatusOK, "")
	for _, path := range []string{"/api/stats", "/docs", "/result/poll?jobId=" + id} {
		wants(t, do(t, http.MethodGet, at[1]+path, ""), http.StatusNotFound, "NOT_FOUND")
	}
	wants(t, do(t, http.MethodPost, at[1]+"/paid/submit", ""), http.StatusNotFound, "NOT_FOUND")
}
