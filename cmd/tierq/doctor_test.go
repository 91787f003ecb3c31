package main

import (
	"net/http"
	"strings"
	"testing"
)

// doctor reports a server that is well, old, drained or away, and wrong settings in the shell.
func TestDoctor(t *testing.T) {
	well := func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.URL.Path == "/admin/consistency" {
			reply(w, 200, obj{"report": nil, "quarantine": obj{"total": 0, "items": []obj{}},
				"checks": []obj{{"name": "redis", "status": "ok", "detail": "fine"}}})
		}
		return r.URL.Path == "/admin/consistency"
	}
	ready := func(status int, name string) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, r *http.Request, body string) bool {
			if r.URL.Path == "/readyz" {
				reply(w, status, obj{"status": name,
					"checks": []obj{{"name": "gate", "status": "DOWN", "detail": "the outbox is full"}}})
				return true
			}
			return well(w, r, body)
		}
	}
	refuseAudit := func(status int, code string) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, r *http.Request, _ string) bool {
			if r.URL.Path == "/admin/consistency" {
				refuse(w, status, code)
			}
			return r.URL.Path == "/admin/consistency"
		}
	}
	for name, c := range map[string]struct {
		first   func(http.ResponseWriter, *http.Request, string) bool
		environ []string
		code    int
		says    []string
	}{
		"well": {well, nil, 0,
			[]string{"ok      settings  `tierq serve` would start here, in embedded mode", "redis     fine"}},
		"degraded":       {ready(200, "DEGRADED"), nil, 0, []string{"warn    server", "gate DOWN: the outbox is full"}},
		"out of service": {ready(503, "OUT_OF_SERVICE"), nil, 1, []string{"fail    server", "gate DOWN: the outbox is full"}},
		"older":          {refuseAudit(404, "NOT_FOUND"), nil, 0, []string{"warn    audit", "older than this program"}},
		"Redis is down":  {refuseAudit(503, "SYSTEM_UNHEALTHY"), nil, 1, []string{"fail    audit", "SYSTEM_UNHEALTHY"}},
		"nobody there": {nil, []string{"TIERQ_URL=http://127.0.0.1:1"}, 1,
			[]string{"fail    server    there is no server at http://127.0.0.1:1", "tierq serve"}},
		"wrong settings": {well, []string{"TIERQ_WORKRS=3", "TIERQ_CAPACITY=no"}, 1,
			[]string{"fail    settings", "TIERQ_WORKRS", "TIERQ_CAPACITY"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.instead(c.first)
			end := f.cli(t, world{environ: c.environ}, "doctor")
			if end.code != c.code {
				t.Errorf("code %d, want %d\n%s%s", end.code, c.code, end.stdout, end.stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(end.stdout, want) {
					t.Errorf("it does not say %q:\n%s", want, end.stdout)
				}
			}
		})
	}
}

// doctor changes nothing without --repair.
func TestDoctorRepairs(t *testing.T) {
	f := newFake(t)
	f.cli(t, world{}, "doctor")
	if n := len(f.requests("POST", "/")); n != 0 {
		t.Errorf("%d changes", n)
	}
	end := f.cli(t, world{}, "doctor", "--repair")
	if n := len(f.requests("POST", "/admin/consistency")); n != 1 || !strings.Contains(end.stderr, "1 check failed") {
		t.Errorf("%d passes: %s", n, end.stderr)
	}
}
