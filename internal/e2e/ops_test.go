package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// A process that only runs jobs serves its metrics and its health on an address of their own, and nothing else
// there.
func TestOpsListener(t *testing.T) {
	t.Attr("proves", "S1-E7")
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

var metricsAt = regexp.MustCompile(`metrics       http://\S+:(\d+)/metrics`)

// opsBase returns the address of a server's metrics, as this machine reaches it.
func opsBase(t *testing.T, s *server) string {
	t.Helper()
	at := metricsAt.FindStringSubmatch(s.Output())
	if at == nil {
		t.Fatal("the banner does not name it")
	}
	return "http://127.0.0.1:" + at[1]
}

// Metrics and profiles are served in one place: on the API's address for operators, or on an address of their own
// and then not on the API's. If other machines can reach the address, it requires a key, also in a process that
// only runs jobs. If only this machine can, it does not.
func TestOpsPlaces(t *testing.T) {
	t.Attr("proves", "A28 A50")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api")
	boss := api.makeKey("", http.MethodPost, "/admin/keys", adminKey).Key
	reader := api.makeKey(boss, http.MethodPost, "/admin/keys", `{"name":"prometheus","role":"read-only"}`).Key
	ci := api.makeKey(boss, http.MethodPost, "/admin/keys", submitKey).Key
	split := c.start("TIERQ_ROLES=api", "TIERQ_OPS_ADDR=127.0.0.1:0", "TIERQ_INSECURE=off")
	worker := c.start("TIERQ_ROLES=worker", "TIERQ_OPS_ADDR=0.0.0.0:0")
	const metrics, profiles, heap = "/metrics", "/debug/pprof/", "/debug/pprof/heap"
	for name, place := range map[string]struct {
		base string
		want map[string][3]int // by key: statuses of the metrics, the list of profiles, a profile
	}{
		"the API's": {api.base,
			map[string][3]int{"": {401, 401, 401}, ci: {403, 403, 403}, reader: {200, 403, 403}, boss: {200, 200, 200},
				boss + "x": {401, 401, 401}}},
		"the API's, split": {split.base,
			map[string][3]int{"": {404, 404, 404}, ci: {404, 404, 404}, reader: {404, 404, 404}, boss: {404, 404, 404}}},
		"for this machine": {opsBase(t, split), map[string][3]int{"": {200, 200, 200}, ci: {200, 200, 200}}},
		"for others, a worker": {opsBase(t, worker),
			map[string][3]int{"": {401, 401, 401}, ci: {403, 403, 403}, reader: {200, 403, 403}, boss: {200, 200, 200}}},
	} {
		for key, want := range place.want {
			for i, path := range []string{metrics, profiles, heap} {
				var header []string
				if key != "" {
					header = []string{"Authorization", "Bearer " + key}
				}
				if a := do(t, http.MethodGet, place.base+path, "", header...); a.status != want[i] {
					t.Errorf("%s, %s with %.8q: %d, want %d", name, path, key, a.status, want[i])
				}
			}
		}
	}
	// A page of another site, whose name was made to resolve to this machine.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, opsBase(t, split)+heap, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site reads the heap: %d", res.StatusCode)
	}
}
