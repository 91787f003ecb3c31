package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

type answerer = func(http.ResponseWriter, *http.Request, string) bool

// always gives every request the same answer, as a server other than tierq does.
func always(status int, typ, body string) answerer {
	return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", typ)
		w.Header().Set("Retry-After", "3600")
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	}
}

const (
	strangersHTML = "<html><body><h1>404 Not Found \x1b[31m</h1></body></html>"
	strangersJSON = `{"timestamp":"2026-05-01","status":404,"error":"Not Found","path":"/result/poll"}`
)

// Against a server other than tierq, every command says so, and never that the job does not exist.
func TestServerThatIsNotTierq(t *testing.T) {
	reads := []string{
		"poll " + doneID, "poll --wait 1s " + doneID, "watch " + doneID, "jobs list", "jobs show " + doneID,
		"jobs why " + doneID, "dead list", "dead requeue --all --yes", "tiers get", "stats", "keys list", "changes",
	}
	changes := []string{
		"submit paid", "submit paid --count 3", "jobs cancel " + pendingID, "jobs cancel " + pendingID + " " + doneID,
		"dead requeue " + failedID, "watch " + doneID + " " + failedID,
	}
	for name, tc := range map[string]struct {
		answer   answerer
		commands []string
	}{
		"404 HTML":             {always(404, "text/html", strangersHTML), reads},
		"404 JSON":             {always(404, "application/json", strangersJSON), reads},
		"404 HTML to a change": {always(404, "text/html", strangersHTML), changes},
		"404 JSON to a change": {always(404, "application/json", strangersJSON), changes},
		"405":                  {always(405, "text/plain", "no"), reads},
		"501":                  {always(501, "text/html", "<p>Unsupported"), reads},
		"501 to a change":      {always(501, "text/html", "<p>Unsupported"), changes},
		"200 HTML":             {always(200, "text/html", "<!doctype html><title>my app</title>"), reads},
		"a redirect":           {always(301, "text/html", ""), reads},
	} {
		for _, args := range tc.commands {
			f := newFake(t)
			f.instead(tc.answer)
			end := f.cli(t, world{}, split(args)...)
			says := "the server at " + f.URL + " does not speak tierq's API"
			if end.code != exitUnavailable || !strings.Contains(end.stderr, says) || strings.Contains(end.stderr, "\x1b") {
				t.Errorf("%s, tierq %s: code %d\n%s%s", name, args, end.code, end.stdout, end.stderr)
			}
			if strings.Contains(end.stderr, "it redirects") != (name == "a redirect") {
				t.Errorf("%s, tierq %s: %s", name, args, end.stderr)
			}
		}
	}
}

// The page of another server is saved neither as an artifact nor as an export.
func TestStrangersPageIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	f := newFake(t)
	f.instead(always(200, "text/html", "<!doctype html><title>my app</title>"))
	for _, args := range []string{"jobs artifact " + doneID, "dead export --file a.ndjson", "dead export"} {
		end := f.cli(t, world{}, split(args)...)
		if end.code != exitUnavailable || !strings.Contains(end.stderr, "does not speak tierq's API") || end.stdout != "" {
			t.Errorf("tierq %s: %+v", args, end)
		}
	}
	if left, err := filepath.Glob("*"); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

// A JSON answer that names no job is not accepted as a poll.
func TestAnswerWithoutJob(t *testing.T) {
	f := newFake(t)
	f.instead(always(200, "application/json", `{"hello":"world"}`))
	for _, args := range []string{"poll " + doneID, "jobs show " + doneID} {
		end := f.cli(t, world{}, split(args)...)
		if end.code != exitUnavailable || !strings.Contains(end.stderr, "does not speak tierq's API") || end.stdout != "" {
			t.Errorf("tierq %s: %+v", args, end)
		}
	}
}

// version and doctor print the same about such a server; version succeeds anyway.
func TestStrangerInVersionAndDoctor(t *testing.T) {
	for status, body := range map[int]string{404: "<html>", 200: "{}"} {
		f := newFake(t)
		f.instead(always(status, "text/html", body))
		says := "the server at " + f.URL + " does not speak tierq's API"
		end := f.cli(t, world{}, "version")
		if end.code != 0 || !strings.Contains(end.stderr, says) || strings.Contains(end.stdout, "server") {
			t.Errorf("%d: %+v", status, end)
		}
		end = f.cli(t, world{}, "doctor")
		if end.code != exitError || !strings.Contains(end.stdout, "fail    server    "+says) {
			t.Errorf("%d: %+v", status, end)
		}
	}
}

// An answer of a proxy in front of tierq keeps its own meaning, and does not count as another server.
func TestProxyIsNoStranger(t *testing.T) {
	for status, code := range map[int]int{
		502: exitUnavailable, 503: exitUnavailable, 401: exitError, 403: exitError, 413: exitError, 429: exitError,
	} {
		f := newFake(t)
		f.instead(always(status, "text/html", "<html>"))
		end := f.cli(t, world{}, "poll", doneID)
		named := strings.Contains(end.stderr, fmt.Sprint(status))
		if end.code != code || strings.Contains(end.stderr, "does not speak") || !named {
			t.Errorf("%d: %+v", status, end)
		}
	}
}
