package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// pause asks for what its arguments name, and says when all processes know.
func TestPause(t *testing.T) {
	f := newFake(t)
	looks := 0
	var asked []string
	f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		switch {
		case r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/admin/paused/"):
			asked = append(asked, strings.TrimPrefix(r.URL.Path, "/admin/paused/")+" "+body)
			reply(w, http.StatusOK, obj{"scope": "tier:PUBLIC", "since": "2026-05-01T11:31:57Z", "until": nil, "by": "ada",
				"reason": "a migration", "refuse": true})
		case r.Method == http.MethodDelete && r.URL.Path == "/admin/paused/all":
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/admin/paused":
			looks++
			reply(w, http.StatusOK, obj{"version": 1, "inForce": looks > 2, "items": []obj{},
				"processes": []obj{{"name": "host-1", "version": 0, "current": looks > 2}}})
		default:
			return false
		}
		return true
	})
	end := f.cli(t, world{}, "pause", "tier", "public", "--for", "1h", "--reason", "a migration", "--refuse")
	if end.code != 0 || !strings.Contains(end.stderr, "in force: 1 of 1 processes know") || looks != 3 ||
		!strings.Contains(end.stdout, "tier:PUBLIC") || !strings.Contains(end.stdout, "refused") {
		t.Errorf("%+v", end)
	}
	f.cli(t, world{}, "pause", "all")
	f.cli(t, world{}, "pause", "queue:films")
	want := []string{`tier:public {"forSeconds":3600,"reason":"a migration","refuse":true}`, "all {}", "queue:films {}"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	if end := f.cli(t, world{}, "resume", "all"); end.code != 0 || !strings.Contains(end.stderr, "all is not paused") {
		t.Errorf("%+v", end)
	}
	for _, args := range [][]string{{"pause"}, {"pause", "public"}, {"pause", "shop", "a"}, {"resume", "tier"}} {
		if end := f.cli(t, world{}, args...); end.code != 2 {
			t.Errorf("%q: %+v", args, end)
		}
	}
}
