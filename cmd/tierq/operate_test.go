package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A requeue by filter asks before it requeues more than one dead letter, and names their number. Without a
// terminal it is an error; --yes answers the question.
func TestRequeueAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		args     string
		w        world
		matched  int
		code     int
		requeued bool
		inStderr string
	}{
		"yes":       {"--all", world{tty: true, stdin: "y\n"}, 42, 0, true, "Requeue 42 dead letters? [y/N] "},
		"no":        {"--all", world{tty: true, stdin: "\n"}, 42, 1, false, "not confirmed: no dead letter was requeued"},
		"no answer": {"--all", world{tty: true}, 42, 1, false, "not confirmed: no dead letter was requeued"},
		"nobody": {"--tier paid", world{stdin: "y\n"}, 42, 2, false,
			"42 dead letters match, and tierq cannot ask without a terminal: add --yes"},
		"said before":     {"--cause handler_error --yes", world{}, 42, 0, true, ""},
		"only one":        {"--type SIMULATION", world{}, 1, 0, true, ""},
		"one of many":     {"--all --limit 1", world{}, 42, 0, true, ""},
		"only to look":    {"--all --dry-run", world{}, 42, 0, false, ""},
		"none to requeue": {"--all", world{}, 0, 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
				var asked struct {
					DryRun bool
					Limit  int
				}
				_ = json.Unmarshal([]byte(body), &asked)
				switch {
				case r.Method == http.MethodGet && tc.matched == 0:
					reply(w, http.StatusOK, obj{"items": []obj{}, "next": nil})
				case r.Method == http.MethodPost && asked.DryRun:
					reply(w, http.StatusOK, obj{"matched": tc.matched, "requeued": 0})
				case r.Method == http.MethodPost:
					reply(w, http.StatusOK, obj{"matched": tc.matched, "requeued": asked.Limit})
				default:
					return false
				}
				return true
			})
			end := f.cli(t, tc.w, append([]string{"dead", "requeue"}, split(tc.args)...)...)
			wet := 0
			for _, r := range f.requests("POST", "/admin/dead/requeue") {
				if strings.Contains(r.body, `"dryRun":false`) {
					wet++
				}
				if !strings.Contains(r.body, `"before":"2026-05-01T11:00:00.001Z"`) {
					t.Errorf("not bounded by the latest dead letter: %s", r.body)
				}
			}
			if end.code != tc.code || !strings.Contains(end.stderr, tc.inStderr) || (wet > 0) != tc.requeued {
				t.Errorf("code %d, %d requeues\n%s%s", end.code, wet, end.stdout, end.stderr)
			}
		})
	}
}

// A large requeue goes in steps, up to the counted number, and ends when a step requeues nothing.
func TestRequeueInSteps(t *testing.T) {
	for stuckAt, want := range map[int]string{1 << 20: "1200 of 1200 requeued\n", 3: "1000 of 1200 requeued\n"} {
		f := newFake(t)
		var limits []string
		f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
			var asked struct {
				DryRun bool
				Limit  int
			}
			if r.Method != http.MethodPost || json.Unmarshal([]byte(body), &asked) != nil {
				return false
			}
			if !asked.DryRun {
				limits = append(limits, fmt.Sprint(asked.Limit))
			}
			if asked.DryRun || len(limits) >= stuckAt {
				asked.Limit = 0
			}
			reply(w, http.StatusOK, obj{"matched": 1200, "requeued": asked.Limit})
			return true
		})
		end := f.cli(t, world{}, "dead", "requeue", "--before", "1h", "--yes")
		if end.code != 0 || end.stdout != want || strings.Join(limits, " ") != "500 500 200" {
			t.Errorf("%v, steps %v", end, limits)
		}
	}
}

// tiers set writes a whole plan, on condition of the version that it read. A dry run writes nothing.
func TestTiersSet(t *testing.T) {
	f := newFake(t)
	if end := f.cli(t, world{}, "tiers", "set", "public", "--share", "40", "--dry-run"); end.code != 0 ||
		len(f.requests("PUT", "/")) != 0 || !strings.Contains(end.stdout, "40%") {
		t.Errorf("%v", end)
	}
	all := "--priority 9 --max-retries 1 --heartbeat-timeout 5s --max-processing-time 1m --share 40 --backoff-base 1s " +
		"--backoff-factor 3 --backoff-cap 9s --backoff-jitter 0.5"
	end := f.cli(t, world{}, append([]string{"tiers", "set", "public", "-o", "json"}, split(all)...)...)
	got := f.last()
	want := `{"priority":9,"maxRetries":1,"heartbeatTimeoutMs":5000,"maxProcessingTimeMs":60000,"share":40,` +
		`"backoff":{"baseMs":1000,"factor":3,"capMs":9000,"jitter":0.5},` +
		`"typeBackoff":{"REPORT":{"baseMs":1,"factor":1,"capMs":1,"jitter":0}}}`
	if end.code != 0 || got.path != "/admin/tiers/PUBLIC" || got.header.Get("If-Match") != `"7"` || got.body != want {
		t.Errorf("%v\n%s %s", end, got.header.Get("If-Match"), got.body)
	}
	if n := strings.Count(end.stderr, " -> "); n != 9 {
		t.Errorf("%d changes are shown:\n%s", n, end.stderr)
	}
}

// --max-crashes takes a number, or none for a plan whose crashes count as retries.
func TestTiersSet_MaxCrashes(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{}, split("tiers set public --max-crashes 0")...)
	if got := f.last(); end.code != 0 || !strings.Contains(got.body, `"maxCrashes":0,`) ||
		!strings.Contains(end.stderr, "max-crashes: none -> 0") {
		t.Errorf("%v %s", end, got.body)
	}
	end = f.cli(t, world{}, split("tiers set public --max-crashes none")...)
	if end.code != 0 || len(f.requests("PUT", "/")) != 1 || !strings.Contains(end.stderr, "has these values already") {
		t.Errorf("%v", end)
	}
	end = f.cli(t, world{}, split("tiers set public --max-crashes none --share 40")...)
	if got := f.last(); end.code != 0 || strings.Contains(got.body, "maxCrashes") {
		t.Errorf("%v %s", end, got.body)
	}
	end = f.cli(t, world{}, split("tiers set public --max-crashes many")...)
	if end.code != exitUsage || !strings.Contains(end.stderr, "neither a number nor none") {
		t.Errorf("%v", end)
	}
}

// Filters are sent in the form that the server expects. A limit above one page takes several requests.
func TestListFilters(t *testing.T) {
	f := newFake(t)
	f.cli(
		t,
		world{},
		"jobs",
		"list",
		"--status",
		"failed",
		"--tier",
		"paid",
		"--type",
		"SEND_EMAIL",
		"--cause",
		"handler_error",
		"--trace",
		"t.1",
		"--limit",
		"150",
		"--cursor",
		"c1",
	)
	list := f.requests("GET", "/api/jobs")
	if len(list) != 2 ||
		list[0].path != "/api/jobs?cause=HANDLER_ERROR&cursor=c1&limit=100&status=FAILED&tier=PAID&traceId=t.1"+
			"&type=SEND_EMAIL" {
		t.Errorf("%v", list)
	}
	f.cli(t, world{}, "dead", "list", "--before", "24h", "--after", "2026-04-01T00:00:00Z", "--limit", "1")
	if got := f.last().path; got != "/admin/dead?from=2026-04-01T00%3A00%3A00Z&limit=1&to=2026-04-30T12%3A00%3A00Z" {
		t.Error(got)
	}
	f.cli(t, world{}, "dead", "requeue", "--after", "24h", "--dry-run")
	if got := f.last(); got.path != "/admin/dead/requeue" ||
		!strings.Contains(got.body, `"after":"2026-04-30T12:00:00Z","before":"`) {
		t.Errorf("%s %s", got.path, got.body)
	}
	end := f.cli(t, world{}, "jobs", "list", "--limit", "1", "-o", "json")
	if !strings.Contains(end.stdout, "\"next\": \"c1\"") || end.stderr != "" {
		t.Errorf("%v", end)
	}
}

// An empty list is valid in every format.
func TestEmptyList(t *testing.T) {
	f := newFake(t)
	f.instead(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		reply(w, http.StatusOK, obj{"items": []obj{}, "next": nil})
		return true
	})
	for format, want := range map[string]ended{
		"table": {0, "", "none\n"}, "json": {0, "{\n  \"items\": [],\n  \"next\": null\n}\n", ""}, "ndjson": {}, "name": {},
	} {
		if end := f.cli(t, world{}, "dead", "list", "-o", format); end != want {
			t.Errorf("%s: %+v", format, end)
		}
	}
}

// A file is saved under its name, whole or not at all, and does not replace another one.
func TestArtifact(t *testing.T) {
	t.Chdir(t.TempDir())
	f := newFake(t)
	get := func(args ...string) ended {
		return f.cli(t, world{}, append([]string{"jobs", "artifact", doneID}, args...)...)
	}
	is := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if end := get(); end.code != 0 || end.stdout != "report.pdf\n" {
		t.Errorf("%v", end)
	}
	is("report.pdf", "%PDF")
	if err := os.WriteFile("report.pdf", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if end := get(); end.code != 1 || !strings.Contains(end.stderr, "report.pdf exists: --force overwrites it") {
		t.Errorf("%v", end)
	}
	is("report.pdf", "mine")
	if end := get("--force", "-o", "ndjson"); end.code != 0 ||
		end.stdout != `{"file":"report.pdf","contentType":"application/pdf","bytes":4}`+"\n" {
		t.Errorf("%v", end)
	}
	is("report.pdf", "%PDF")
	if end := get("--file", "-"); end.code != 0 || end.stdout != "%PDF" {
		t.Errorf("%v", end)
	}
	f.instead(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Disposition", `attachment; filename="../.-evil"`)
		_, _ = io.WriteString(w, "x")
		return true
	})
	if end := get(); end.code != 0 || end.stdout != "evil\n" {
		t.Errorf("%v", end)
	}
	f.instead(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Disposition", `attachment; filename="half.pdf"`)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		return true
	})
	if end := get("--file", "half.pdf"); end.code == 0 {
		t.Errorf("%v", end)
	}
	left, _ := filepath.Glob("*")
	hidden, _ := filepath.Glob(".t*")
	if got := fmt.Sprint(left, hidden); got != "[evil report.pdf] []" {
		t.Error(got)
	}
}

// An export to a file is written whole or not at all.
func TestExportToFile(t *testing.T) {
	t.Chdir(t.TempDir())
	f := newFake(t)
	if end := f.cli(t, world{}, "dead", "export", "--file", "a.ndjson"); end.code != 0 || end.stdout != "" {
		t.Errorf("%v", end)
	}
	if got, err := os.ReadFile("a.ndjson"); err != nil || strings.Count(string(got), "\n") != 2 {
		t.Errorf("%s %v", got, err)
	}
	f.instead(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{}\n{\"half\":1}")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, args := range [][]string{{"--file", "b.ndjson"}, {}} {
		if end := f.cli(t, world{}, append([]string{"dead", "export"}, args...)...); end.code != exitError ||
			!strings.Contains(end.stderr, "tierq: export: unexpected EOF") || strings.Contains(end.stdout, "half") {
			t.Errorf("%v", end)
		}
	}
	if left, _ := filepath.Glob("*"); fmt.Sprint(left) != "[a.ndjson]" {
		t.Errorf("%v", left)
	}
}
