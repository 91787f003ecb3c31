package main

import (
	"net/http"
	"strings"
	"testing"
)

const everyPlanFlag = "--priority 9 --max-retries 1 --max-crashes 0 --heartbeat-timeout 5s --max-processing-time 1m " +
	"--share 40 --own-slots 4 --backoff-base 1s --backoff-factor 3 --backoff-cap 9s --backoff-jitter 0.5"

// tiers create stores a whole plan, only if no tier has this name, with the flags' values and defaults for the
// rest.
func TestTiersCreate(t *testing.T) {
	f := newFake(t)
	created := func(args, plan, prints string) {
		t.Helper()
		end := f.cli(t, world{}, split("tiers create "+args)...)
		got := f.last()
		if end.code != 0 || got.method != "PUT" || got.path != "/admin/tiers/GOLD" || got.body != plan {
			t.Errorf("%+v\n%s %s %s", end, got.method, got.path, got.body)
		}
		if got.header.Get("If-None-Match") != "*" || got.header.Get("If-Match") != "" {
			t.Errorf("%v", got.header)
		}
		if !strings.Contains(end.stdout, prints) {
			t.Errorf("%q is not printed: %s", prints, end.stdout)
		}
	}
	created("Gold -o json "+everyPlanFlag, `{"priority":9,"maxRetries":1,"heartbeatTimeoutMs":5000,`+
		`"maxProcessingTimeMs":60000,"share":40,"maxCrashes":0,"ownSlots":4,`+
		`"backoff":{"baseMs":1000,"factor":3,"capMs":9000,"jitter":0.5}}`,
		`"tier": "GOLD"`)
	created("gold --priority 2", `{"priority":2,"maxRetries":2,"heartbeatTimeoutMs":6000,"maxProcessingTimeMs":20000,`+
		`"share":85,"backoff":{"baseMs":2000,"factor":2,"capMs":300000,"jitter":0.2}}`, "GOLD  2 ")
	help := f.cli(t, world{}, "tiers", "create", "--help").stdout
	for _, part := range []string{
		"(default 2)", "(default 6s)", "(default 20s)", "(default 85)", "(default 5m)", "(default 0.2)", "--priority n ",
	} {
		if !strings.Contains(help, part) {
			t.Errorf("the help has no %q:\n%s", part, help)
		}
	}
}

// A dry run shows the plan and stores nothing. A tier that exists is refused, and so is a plan without a priority.
func TestTiersCreateRefuses(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{}, split("tiers create gold --priority 2 --share 40 --dry-run")...)
	if end.code != 0 || !strings.Contains(end.stdout, "40%") {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, split("tiers create public --priority 2 --dry-run")...)
	if end.code != exitError || !strings.Contains(end.stderr, "tierq tiers set public") {
		t.Errorf("%+v", end)
	}
	for args, says := range map[string]string{
		"tiers create gold":              "--priority is missing",
		"tiers create":                   "a TIER is missing",
		"tiers create a/b --priority 1":  `"a/b" is not the name of a tier`,
		"tiers create gold --priority x": `invalid argument "x" for "--priority"`,
	} {
		end := f.cli(t, world{}, split(args)...)
		if end.code != exitUsage || !strings.Contains(end.stderr, says) || end.stdout != "" {
			t.Errorf("tierq %s: %+v", args, end)
		}
	}
	if n := len(f.requests("PUT", "/")); n != 0 {
		t.Errorf("%d plans were stored", n)
	}
	f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Header.Get("If-None-Match") == "*" {
			refuse(w, http.StatusPreconditionFailed, "PRECONDITION_FAILED")
		}
		return r.Method == http.MethodPut
	})
	end = f.cli(t, world{}, "tiers", "create", "public", "--priority", "2")
	says := "tier PUBLIC exists already: tierq tiers set public changes it"
	if end.code != exitError || !strings.Contains(end.stderr, says) || strings.Contains(end.stderr, "somebody else") {
		t.Errorf("%+v", end)
	}
}
