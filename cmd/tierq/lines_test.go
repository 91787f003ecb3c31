package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The commands list lines, show the limits of a key, and change those that flags name.
func TestLines(t *testing.T) {
	f := newFake(t)
	limits := obj{"key": "acme", "owner": nil, "running": 2, "weight": 1, "rate": 0.5, "burst": 4, "waiting": 0,
		"strict": false, "paused": nil, "version": 7}
	var asked []string
	f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if r.URL.Path != "/admin/lines" {
			return false
		}
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.RawQuery+" "+r.Header.Get("If-Match")+" "+body))
		if r.Method == http.MethodPut {
			reply(w, http.StatusOK, limits)
			return true
		}
		reply(w, http.StatusOK, obj{"lines": 3, "running": 50, "limits": limits, "items": []obj{
			{"key": "acme", "owner": nil, "tier": "PUBLIC", "queue": "main", "waiting": 90210, "running": 40, "share": 0.8,
				"noisy": true, "parked": false, "until": nil},
			{"key": nil, "owner": "k1", "tier": "PUBLIC", "queue": "main", "waiting": 1, "running": 2, "share": 0.04,
				"noisy": false, "parked": true, "until": nil},
		}})
		return true
	})
	end := f.cli(t, world{}, "lines", "list", "--running", "--limit", "5")
	if end.code != 0 || !strings.Contains(end.stderr, "3 lines in all, 50 running attempts") ||
		!strings.Contains(end.stdout, "noisy") || !strings.Contains(end.stdout, "owner k1") ||
		!strings.Contains(end.stdout, "at its limit") || !strings.Contains(end.stdout, "80%") {
		t.Errorf("%+v", end)
	}
	f.cli(t, world{}, "lines", "list", "--share")
	end = f.cli(t, world{}, "lines", "get", "acme")
	if end.code != 0 || !strings.Contains(end.stderr, "acme: at most 2 run, 0.5 start per second, 4 at once") {
		t.Errorf("%+v", end)
	}
	f.cli(t, world{}, "lines", "set", "acme", "--running", "0", "--strict")
	f.cli(t, world{}, "lines", "set", "acme", "--pause", "--for", "1h", "--reason", "a fire")
	f.cli(t, world{}, "lines", "set", "--owner", "k1", "--weight", "3")
	want := []string{
		"GET limit=5&sort=running", "GET limit=20&sort=share", "GET key=acme",
		"GET key=acme",
		`PUT key=acme "7" {"running":0,"weight":1,"rate":0.5,"burst":4,"waiting":0,"strict":true}`,
		"GET key=acme",
		`PUT key=acme "7" {"running":2,"weight":1,"rate":0.5,"burst":4,"waiting":0,"strict":false,` +
			`"paused":{"forSeconds":3600,"reason":"a fire"}}`,
		"GET owner=k1",
		`PUT owner=k1 "7" {"running":2,"weight":3,"rate":0.5,"burst":4,"waiting":0,"strict":false}`,
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	for _, args := range [][]string{
		{"lines", "get"}, {"lines", "set", "acme"}, {"lines", "set", "--running", "1"},
		{"lines", "set", "acme", "--owner", "k1", "--running", "1"}, {"lines", "set", "acme", "--pause", "--resume"},
	} {
		if end := f.cli(t, world{}, args...); end.code != 2 {
			t.Errorf("%q: %+v", args, end)
		}
	}
}
