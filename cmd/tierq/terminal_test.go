package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A terminal gets colours and a progress line. Other outputs, and users who switch them off, do not.
func TestTerminal(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{tty: true}, "watch", failedID)
	if end.code != exitJob || !strings.Contains(end.stdout, "\x1b[31mFAILED\x1b[0m") ||
		!strings.Contains(end.stderr, "asking for job "+failedID) {
		t.Errorf("%+v", end)
	}
	if end := f.cli(t, world{tty: true}, "watch", doneID, stoppedID); !strings.Contains(end.stderr, "2/2") {
		t.Errorf("%q", end.stderr)
	}
	if end := f.cli(t, world{tty: true}, "jobs", "list", "--all"); !strings.Contains(end.stdout,
		"\x1b[39mSTATUS\x1b[0m     TIER") ||
		!strings.Contains(end.stdout, "\x1b[32mCOMPLETED\x1b[0m  PAID") {
		t.Errorf("%q", end.stdout)
	}
	for _, w := range []world{{}, {tty: true, environ: []string{"NO_COLOR=1"}}} {
		if end := f.cli(t, w, "jobs", "list", "--all"); strings.Contains(end.stdout, "\x1b") {
			t.Errorf("%v: %q", w, end.stdout)
		}
	}
	if end := f.cli(t, world{tty: true}, "jobs", "list", "--no-color"); strings.Contains(end.stdout, "\x1b") {
		t.Errorf("%q", end.stdout)
	}
	for _, args := range [][]string{{"watch", doneID}, {"submit", "paid", "--count", "3"}, {"submit", "paid", "--wait"}} {
		if end := f.cli(t, world{}, args...); end.stderr != "" {
			t.Errorf("%q: not a terminal, and yet %q", args, end.stderr)
		}
	}
	// Commands that print results meanwhile show no progress line.
	for _, args := range [][]string{{"watch", doneID, "-o", "ndjson"}, {"submit", "paid", "--count", "3"}} {
		if end := f.cli(t, world{tty: true}, args...); strings.Contains(end.stderr, "\r") {
			t.Errorf("%q: %q", args, end.stderr)
		}
	}
}

// The end of a progress leaves an empty line.
func TestProgressClears(t *testing.T) {
	var b bytes.Buffer
	s := &session{program: program{stderr: &b, tty: func(any) bool { return true }}}
	nothing := func() string { return "" }
	for _, begin := range []func() *progress{
		func() *progress { return s.spin(func() string { return hostile }) },
		func() *progress { return s.count(10, nothing) },
		func() *progress { return s.count(-1, nothing) }, noProgress,
	} {
		p := begin()
		p.add(3)
		p.end()
		p.end()
		if text := b.String(); strings.ContainsAny(text, "\x1b\n\u009b") || text != "" && !strings.HasSuffix(text, "\r") {
			t.Errorf("%q", text)
		}
		b.Reset()
	}
}

// pendingFirst answers the first poll with a pending job. then answers the other requests, if it is not nil.
func pendingFirst(then func(http.ResponseWriter, *http.Request, string) bool) func(http.ResponseWriter, *http.Request,
	string) bool {
	asked := false
	return func(w http.ResponseWriter, r *http.Request, body string) bool {
		if r.URL.Path == "/result/poll" && !asked {
			asked = true
			w.Header().Set("ETag", `W/"PENDING-1-0-1"`)
			reply(w, http.StatusOK, data(polled(r.URL.Query().Get("jobId"), "PENDING")))
			return true
		}
		return then != nil && then(w, r, body)
	}
}

// watch -o ndjson prints a line for each change of a job, and its end once.
func TestWatchLines(t *testing.T) {
	f := newFake(t)
	f.instead(pendingFirst(nil))
	end := f.cli(t, world{}, "watch", doneID, "-o", "ndjson")
	var seen []string
	for line := range strings.Lines(end.stdout) {
		var v obj
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, v["currentJobStatus"].(string))
	}
	if got := strings.Join(seen, " "); got != "PENDING COMPLETED" {
		t.Error(got)
	}
}

// If the event stream does not work, watch polls.
func TestWatchWithoutStream(t *testing.T) {
	f := newFake(t)
	f.instead(pendingFirst(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if strings.HasSuffix(r.URL.Path, "/events") {
			refuse(w, http.StatusNotFound, "NOT_FOUND")
			return true
		}
		return false
	}))
	end := f.cli(t, world{}, "watch", failedID)
	if polls := f.requests("GET", "/result/poll"); end.code != exitJob || !strings.Contains(end.stdout, "HANDLER_ERROR") ||
		len(polls) != 2 {
		t.Errorf("%d polls, %v", len(polls), end)
	}
}

// watch follows lanes jobs at once, and all of them to their ends.
func TestWatchMany(t *testing.T) {
	f := newFake(t)
	var asking atomic.Int32
	full := make(chan struct{})
	f.instead(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if asking.Add(1) == lanes {
			close(full)
		}
		select {
		case <-full:
		case <-r.Context().Done():
		}
		return false
	})
	args := []string{"watch", "-o", "name", "--timeout", "10s"}
	for range 3*lanes + 1 {
		args = append(args, doneID)
	}
	if end := f.cli(t, world{}, args...); end.code != 0 || strings.Count(end.stdout, doneID) != 3*lanes+1 {
		t.Errorf("%v", end)
	}
}

// stats --watch prints repeatedly, in lines of JSON if JSON is requested, and continues after an outage of the
// server.
func TestStatsWatch(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	n := 0
	f.instead(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n++; n > 1 && n <= 1+tries { // one reading, with all its tries
			refuse(w, http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY")
			return true
		}
		return false
	})
	end := f.cli(t, world{}, "stats", "--watch", "200ms", "--timeout", "4s", "-o", "json")
	lines := strings.Split(strings.TrimSpace(end.stdout), "\n")
	if end.code != exitTimeout || len(lines) < 2 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) ||
		!strings.Contains(end.stderr, "503 SYSTEM_UNHEALTHY") {
		t.Errorf("%d lines\n%v", len(lines), end)
	}
	if end := f.cli(t, world{tty: true}, "stats", "--watch", "200ms", "--timeout", "300ms"); !strings.HasPrefix(end.stdout,
		"\x1b[H\x1b[2JTIER") {
		t.Errorf("%q", end.stdout)
	}
}

func TestVersionOfServer(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{}, "version")
	if want := "\nserver v1.0.0 (" + f.URL + ", UP)\n"; end.code != 0 || !strings.HasSuffix(end.stdout, want) {
		t.Errorf("%v", end)
	}
	if end := f.cli(t, world{}, "version", "--client"); strings.Contains(end.stdout, "server") {
		t.Errorf("%v", end)
	}
	for _, args := range [][]string{{"--json"}, {"-o", "json"}, {"-o", "ndjson"}} {
		var v versions
		end := f.cli(t, world{}, append([]string{"version"}, args...)...)
		if err := json.Unmarshal([]byte(end.stdout), &v); err != nil || v.versionInfo != readVersion() ||
			v.Server.Versions[0] != "v1.0.0" || len(v.Server.Versions) != 1 {
			t.Errorf("%v %v", err, end)
		}
	}
	f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.URL.Path == "/api/stats" {
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		}
		return r.URL.Path == "/api/stats"
	})
	if end := f.cli(t, world{}, "version"); end.code != 0 || !strings.Contains(end.stdout, "server - (") {
		t.Errorf("%v", end)
	}
	if end := f.cli(t, world{environ: []string{"TIERQ_URL=http://127.0.0.1:1"}}, "version"); end.code != 0 ||
		end.stderr != "no answer from http://127.0.0.1:1\n" {
		t.Errorf("%v", end)
	}
}

// The server's texts in version contain no control sequence for a terminal, and its JSON is valid.
func TestVersionIsClean(t *testing.T) {
	f := newFake(t)
	f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		switch r.URL.Path {
		case "/readyz":
			reply(w, http.StatusOK, obj{"status": "UP" + hostile, "checks": []obj{}})
		case "/api/stats":
			reply(w, http.StatusOK, obj{"tiers": []obj{}, "workers": []obj{{"name": "w", "version": "v1" + hostile}}})
		default:
			return false
		}
		return true
	})
	for args, isJSON := range map[string]bool{
		"--json": true, "-o json": true, "-o ndjson": true, "--json -o wide": true, "": false,
		"-o name": false, "-o wide": false,
	} {
		end := f.cli(t, world{}, append([]string{"version"}, split(args)...)...)
		obeyed := strings.ContainsAny(end.stdout+end.stderr, "\x1b\x07\r\u009b\u202e")
		if end.code != 0 || obeyed || strings.Contains(end.stdout, "\nfake line") {
			t.Errorf("%q: %q", args, end.stdout)
		}
		if !isJSON {
			continue
		}
		var v versions
		err := json.Unmarshal([]byte(end.stdout), &v)
		if err != nil || v.Server.Status != "UP"+hostile || v.Server.Versions[0] != "v1"+hostile {
			t.Errorf("%q: %v %q", args, err, end.stdout)
		}
	}
}

func TestSince(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s ago", 59 * time.Second: "59s ago", -90 * time.Second: "in 1m", 47 * time.Hour: "47h ago",
		72 * time.Hour: "3d ago",
	} {
		if got := since(fixedNow.Add(-d), fixedNow); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 5 * time.Minute: "5m", time.Hour: "1h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s",
		10 * time.Second: "10s",
	} {
		if got := short(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
