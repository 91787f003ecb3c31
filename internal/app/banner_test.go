package app

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/config"
)

// The banner shows the dashboard first, then the first job, its result and the API; where the data is comes later.
func TestBannerNamesTheDashboardFirst(t *testing.T) {
	var b strings.Builder
	c := config.Config{Workers: 3, Roles: config.Roles{API: true, Worker: true}}
	s := &stores{mode: "embedded", where: []string{"sql           ./data/tierq.sqlite"}, survives: "everything"}
	key, at := " -H 'Authorization: Bearer tq_...'", addresses{api: "127.0.0.1:8080", ops: "127.0.0.1:9090"}
	writeBanner(&b, c, s, &outgoing{}, "open", key, "tq_a_b", at, "v1.2.3")
	rest := b.String()
	for _, part := range []string{
		"tierq v1.2.3, embedded mode", "dashboard     http://127.0.0.1:8080/dashboard\n",
		"curl -X POST http://127.0.0.1:8080/paid/submit -H 'Authorization: Bearer tq_...'\n",
		"curl 'http://127.0.0.1:8080/result/poll?jobId=", "http://127.0.0.1:8080/docs\n",
		"sql           ./data/tierq.sqlite", "first key     tq_a_b\n", "this process  api, 3 workers",
		"metrics       http://127.0.0.1:9090/metrics",
	} {
		before, after, found := strings.Cut(rest, part)
		if !found || strings.Contains(before, "http") {
			t.Fatalf("%q is missing, or an address comes before it:\n%s", part, b.String())
		}
		rest = after
	}
}

// The banner of a process that takes no jobs shows neither a dashboard nor a first job.
func TestBannerOfAWorker(t *testing.T) {
	var b strings.Builder
	c := config.Config{Workers: 3, Roles: config.Roles{Worker: true}}
	writeBanner(&b, c, &stores{mode: "external"}, &outgoing{}, "", "", "", addresses{health: "127.0.0.1:8080"}, "v1.2.3")
	if text := b.String(); strings.Contains(text, "dashboard") || strings.Contains(text, "curl") ||
		!strings.Contains(text, "health        http://127.0.0.1:8080/readyz\n") {
		t.Error(b.String())
	}
}
