package main

import (
	"net/http"
	"strings"
	"testing"
)

// A scheduled job is shown with the time at which it is due: in a poll, in a list, and while it is watched.
func TestScheduledSaysWhenItIsDue(t *testing.T) {
	const due = "2026-05-01T14:00:00Z" // in two hours
	later := polled(pendingID, "SCHEDULED")
	later["retryCount"], later["runAt"] = 1, due
	f := newFake(t)
	f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		switch {
		case r.URL.Path == "/api/jobs":
			listed := row(pendingID, "SCHEDULED")
			listed["runAt"] = due
			reply(w, http.StatusOK, obj{"items": []obj{listed}, "next": nil})
		case r.URL.Path == "/result/poll":
			reply(w, http.StatusOK, data(later))
		case strings.HasSuffix(r.URL.Path, "/events"):
			refuse(w, http.StatusNotFound, "NOT_FOUND") // the command falls back to polls
		default:
			return false
		}
		return true
	})
	for args, want := range map[string]string{
		"poll " + pendingID:            "DUE      in 2h\n",
		"poll -o wide " + pendingID:    due,
		"jobs list":                    "in 2h",
		"jobs list --status retrying":  "in 2h",
		"jobs list -o wide":            due,
		"jobs list -o ndjson":          `"runAt":"` + due + `"`,
		"poll -o json " + pendingID:    `"runAt": "` + due + `"`,
		"watch -o ndjson " + pendingID: `"runAt":"` + due + `"`,
	} {
		end := f.cli(t, world{}, append(strings.Fields(args), "--timeout", "300ms")...)
		if !strings.Contains(end.stdout, want) {
			t.Errorf("%s: %q is not in %+v", args, want, end)
		}
	}
	if end := f.cli(t, world{tty: true}, "watch", pendingID, "--timeout", "1s"); !strings.Contains(
		end.stderr,
		"SCHEDULED, due in 2h",
	) {
		t.Errorf("on a terminal: %q", end.stderr)
	}
	var lists strings.Builder
	for _, r := range f.requests("GET", "/api/jobs") {
		lists.WriteString(r.path + "\n")
	}
	if !strings.Contains(lists.String(), "status=RETRYING") {
		t.Errorf("asked for\n%s", &lists)
	}
}
