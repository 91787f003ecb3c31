package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// healthcheck runs tierq healthcheck as a container does, with only the server's settings.
func (c *cluster) healthcheck(addr string) (code int, output string) {
	c.t.Helper()
	p := testkit.StartProcess(c.t, c.bin, []string{"TIERQ_ADDR=" + addr}, "healthcheck")
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	code, err := p.WaitExit(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return code, p.Output()
}

// A process of any role serves its health on TIERQ_ADDR. A process without the api role serves nothing else there.
func TestHealthOfEveryRole(t *testing.T) {
	t.Attr("proves", "S4-E6 S4-O3")
	t.Parallel()
	c := newCluster(t)
	for _, roles := range []string{"worker", "recovery", "worker,recovery", "api", "api,worker,recovery"} {
		t.Run(roles, func(t *testing.T) {
			addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
			s := c.start("TIERQ_ROLES="+roles, "TIERQ_ADDR="+addr, "TIERQ_WORKERS=3")
			api := strings.Contains(roles, "api")
			for path, want := range map[string]string{"/livez": `{"status":"UP"}`, "/readyz": `"status":"UP"`,
				"/actuator/health": `"status":"UP"`} {
				a := do(t, http.MethodGet, "http://"+addr+path, "")
				if a.status != http.StatusOK || !strings.Contains(string(a.body), want) {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			}
			var health struct {
				Components struct {
					Job struct{ Details struct{ PoolSize int } }
				}
			}
			a := do(t, http.MethodGet, "http://"+addr+"/actuator/health", "")
			slots := 0
			if strings.Contains(roles, "worker") {
				slots = 3
			}
			if err := json.Unmarshal(a.body, &health); err != nil || health.Components.Job.Details.PoolSize != slots {
				t.Errorf("poolSize, want %d: %s", slots, a.body)
			}
			for _, path := range []string{"/metrics", "/debug/pprof/", "/api/stats", "/api/jobs", "/jobs/dead", "/admin/tiers",
				"/docs", "/openapi.yaml", "/",
				"/api/me", "/demo"} {
				if a := do(t, http.MethodGet, "http://"+addr+path, ""); (a.status == http.StatusOK) != api {
					t.Errorf("%s: %d", path, a.status)
				}
			}
			if a := do(t, http.MethodPost, "http://"+addr+"/paid/submit", ""); (a.status == http.StatusAccepted) != api {
				t.Errorf("a submit: %d", a.status)
			}
			if code, output := c.healthcheck(addr); code != 0 || !strings.Contains(output, `"status":"UP"`) {
				t.Errorf("tierq healthcheck: exit %d, %s", code, output)
			}
			if named := strings.Contains(s.Output(), "health        http://"+addr+"/readyz"); named == api {
				t.Errorf("the banner names the health's address: %t", named)
			}
			if code, _ := s.terminate(20 * time.Second); code != 0 {
				t.Errorf("exit %d", code)
			}
			if code, output := c.healthcheck(addr); code != 1 {
				t.Errorf("tierq healthcheck of a server that stopped: exit %d, %s", code, output)
			}
		})
	}
}

// A worker that cannot reach Redis is alive and not ready. It is ready again once Redis is back.
func TestHealthOfAWorkerWithoutRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	c.start("TIERQ_ROLES=worker", "TIERQ_ADDR="+addr)
	ready := func(want int) {
		t.Helper()
		testkit.Eventually(t, 30*time.Second, fmt.Sprintf("readyz answers %d", want), func() (bool, string) {
			a := do(t, http.MethodGet, "http://"+addr+"/readyz", "")
			return a.status == want, string(a.body)
		})
	}
	ready(http.StatusOK)
	if err := c.redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusServiceUnavailable)
	wants(t, do(t, http.MethodGet, "http://"+addr+"/livez", ""), http.StatusOK, "")
	if code, output := c.healthcheck(addr); code != 1 || !strings.Contains(output, "not ready") {
		t.Errorf("tierq healthcheck: exit %d, %s", code, output)
	}
	if err := c.redis.Thaw(); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK)
}

// Two processes on one host need two addresses, whatever their roles: the second one ends with an error that names
// the setting.
func TestHealthAddressTaken(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	c.start("TIERQ_ROLES=api", "TIERQ_ADDR="+addr)
	p := testkit.StartProcess(t, c.bin, []string{
		"REDIS_URL=" + c.redis.URL(), "MYSQL_DSN=" + c.dsn, "TIERQ_ROLES=worker", "TIERQ_ADDR=" + addr,
		"TIERQ_DATA_DIR=" + t.TempDir(),
	}, "serve")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if code, err := p.WaitExit(ctx); err != nil || code != 1 {
		t.Fatalf("exit %d, %v", code, err)
	}
	for _, part := range []string{"TIERQ_ADDR " + addr + " is taken", "set TIERQ_ADDR to a free address",
		"every process serves its health there"} {
		if !strings.Contains(p.Output(), part) {
			t.Errorf("it does not say %q: %s", part, p.Output())
		}
	}
}

// If other machines can reach the address, a worker starts without API keys, tells callers without a key only one
// word, and its probes may use any host name. With keys only operators see the parts. If the address is also that
// of the metrics, it serves both.
func TestHealthOfAWorkerForOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	port := testkit.FreePort(t)
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	c.start("TIERQ_ROLES=worker", fmt.Sprintf("TIERQ_ADDR=0.0.0.0:%d", port))
	word := func(key string, more bool) {
		t.Helper()
		for _, path := range []string{"/readyz?verbose", "/actuator/health"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "10.1.2.3:8080" // as a kubelet calls it
			if key != "" {
				req.Header.Set("Authorization", "Bearer "+key)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var body map[string]any
			err = json.NewDecoder(resp.Body).Decode(&body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || body["status"] != "UP" ||
				(body["checks"] != nil || body["components"] != nil) != more {
				t.Errorf("%s: %d %v, %v", path, resp.StatusCode, body, err)
			}
		}
	}
	word("", false)
	api := c.start("TIERQ_ROLES=api")
	boss := api.makeKey("", http.MethodPost, "/admin/keys", adminKey).Key
	word("", false)
	testkit.Eventually(t, 10*time.Second, "the worker knows the key", func() (bool, string) {
		a := do(t, http.MethodGet, base+"/actuator/health", "", "Authorization", "Bearer "+boss)
		return strings.Contains(string(a.body), "components"), string(a.body)
	})
	word(boss, true)

	both := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	c.start("TIERQ_ROLES=worker", "TIERQ_ADDR="+both, "TIERQ_OPS_ADDR="+both)
	var served []string
	for _, path := range []string{"/livez", "/readyz", "/actuator/health", "/metrics", "/api/stats", "/docs"} {
		if do(t, http.MethodGet, "http://"+both+path, "").status == http.StatusOK {
			served = append(served, path)
		}
	}
	if !slices.Equal(served, []string{"/livez", "/readyz", "/actuator/health", "/metrics"}) {
		t.Errorf("one address for health and metrics serves %q", served)
	}
}
