package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// aNightly is a schedule as the server shows it.
func aNightly(name string, version int) obj {
	return obj{"name": name, "cron": "30 2 * * *", "everySeconds": nil, "timezone": "UTC", "start": nil, "end": nil,
		"jitterSeconds": 0, "overlap": "skip", "catchUp": "last", "owner": nil, "paused": nil, "lastOccurrence": nil,
		"next": []string{"2026-05-02T02:30:00.000000Z"}, "version": version,
		"job": obj{"tier": "UNPAID", "type": "REPORT", "payload": obj{"kind": "jobs"}, "queue": "main", "key": nil,
			"maxRetries": nil, "maxProcessingSeconds": nil, "callbackUrl": nil, "expiresIn": nil},
		"runs": []obj{
			{"occurrence": "2026-05-01T02:30:00.000000Z", "through": "2026-05-01T02:30:00.000000Z", "status": "FIRED",
				"jobId": doneID, "living": true, "asked": true, "missed": nil, "reason": nil, "detail": nil},
			{"occurrence": "2026-04-01T02:30:00.000000Z", "through": "2026-04-30T02:30:00.000000Z", "status": "MISSED",
				"jobId": nil, "living": false, "asked": false, "missed": 30, "reason": "DOWN", "detail": "no server"},
		}}
}

// scheduleServer answers about the schedules nightly and old, and returns what it was asked.
func scheduleServer(f *fake) *[]string {
	var asked []string
	f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		name, is := strings.CutPrefix(r.URL.Path, "/admin/schedules")
		if !is {
			return false
		}
		asked = append(asked, strings.TrimSpace(r.Method+" "+name+" "+r.URL.RawQuery+" "+body))
		name = strings.TrimPrefix(name, "/")
		switch {
		case name == "":
			reply(w, http.StatusOK, obj{"items": []obj{aNightly("nightly", 3), aNightly("old", 1)}})
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(name, "/run"):
			reply(w, http.StatusAccepted, obj{"jobId": doneID, "status": "PENDING", "schedule": "nightly"})
		case strings.HasSuffix(name, "/next"):
			reply(w, http.StatusOK, obj{"items": []string{"2026-05-02T02:30:00.000000Z"}})
		case strings.Contains(body, "REFUSED"):
			w.WriteHeader(http.StatusBadRequest)
		case r.Method == http.MethodPut && strings.Contains(body, `"0 0 * * *"`):
			reply(w, http.StatusOK, aNightly(name, 4))
		default:
			name, _, _ = strings.Cut(name, "/")
			reply(w, http.StatusOK, aNightly(name, 3))
		}
		return true
	})
	return &asked
}

// The commands list and show schedules, say what comes, and change them.
func TestSchedules(t *testing.T) {
	f := newFake(t)
	asked := scheduleServer(f)
	for _, c := range []struct {
		args string
		says []string
		asks string
	}{
		{"schedules list", []string{"nightly", "30 2 * * *", "2026-05-02T02:30:00Z", "REPORT"}, "GET"},
		{"schedules show nightly", []string{`{"kind":"jobs"}`, doneID + ", asked for",
			"living", "30 missed: DOWN", "no server"},
			"GET /nightly"},
		{"schedules show nightly --runs 1", []string{"living"}, "GET /nightly"},
		{"schedules next nightly -n 3 --from 2026-10-24T00:00:00Z", []string{"2026-05-02T02:30:00Z\n"},
			"GET /nightly/next from=2026-10-24T00%3A00%3A00Z&n=3"},
		{"schedules run nightly --idempotency-key a", []string{doneID}, "POST /nightly/run"},
		{"schedules pause nightly --reason 'a fire'", []string{"nightly"}, `POST /nightly/pause  {"reason":"a fire"}`},
		{"schedules resume nightly", []string{"nightly"}, "POST /nightly/resume"},
		{"schedules delete nightly", []string{"nightly is deleted"}, "DELETE /nightly"},
		{"schedules set s --cron '0 3 * * *' --timezone Europe/Berlin --jitter 1m --tier paid --type A --data {} " +
			"--max-retries 0 --expires-in 90 --overlap one --start 2026-12-01T08:00:00Z", []string{"s "},
			`PUT /s  {"cron":"0 3 * * *","timezone":"Europe/Berlin","start":"2026-12-01T08:00:00Z","jitterSeconds":60,` +
				`"overlap":"one","job":{"tier":"PAID","type":"A","payload":{},"maxRetries":0,"expiresIn":90}}`},
		{"schedules set s --every 10m", []string{"s "},
			`PUT /s  {"everySeconds":600,"job":{"tier":"UNPAID","type":"SIMULATION"}}`},
	} {
		*asked = nil
		end := f.cli(t, world{}, split(c.args)...)
		for _, word := range c.says {
			if end.code != 0 || !strings.Contains(end.stdout, word) {
				t.Errorf("%s: %+v", c.args, end)
			}
		}
		if !slices.Equal(*asked, []string{c.asks}) {
			t.Errorf("%s: asked %q", c.args, *asked)
		}
	}
	for _, args := range []string{
		"schedules set s", "schedules set s --cron x --every 1m", "schedules set s --every 1m --start noon",
		"schedules next s --from noon", "schedules apply",
	} {
		if end := f.cli(t, world{}, split(args)...); end.code != 2 {
			t.Errorf("%s: %+v", args, end)
		}
	}
}

// Files in YAML and JSON are stored. What is as a file says stays, and what no file has is deleted on request. A dry
// run changes nothing.
func TestSchedulesApply(t *testing.T) {
	f := newFake(t)
	asked := scheduleServer(f)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nightly.yaml", "cron: 30 2 * * *\njob: {type: REPORT, payload: {kind: jobs}}\n")
	write("b.json", `{"name":"other","cron":"0 0 * * *","job":{"tier":"paid","type":"A"}}`)
	write("README.md", "no schedule")
	change := func(stdout string) string { return strings.Join(strings.Fields(stdout), " ") }
	end := f.cli(t, world{}, "schedules", "apply", "-f", dir, "--prune", "--dry-run")
	if want := "SCHEDULE CHANGE nightly unchanged other created old deleted"; end.code != 0 || change(end.stdout) != want {
		t.Errorf("%+v", end)
	}
	const nightly, other = `{"cron":"30 2 * * *","job":{"type":"REPORT","payload":{"kind":"jobs"}}}`,
		`{"cron":"0 0 * * *","job":{"tier":"PAID","type":"A"}}`
	tried := []string{"GET", "PUT /nightly dryRun=true " + nightly, "PUT /other dryRun=true " + other}
	if !slices.Equal(*asked, tried) {
		t.Errorf("a dry run asked %q", *asked)
	}
	*asked = nil
	end = f.cli(t, world{}, "schedules", "apply", "-f", dir, "--prune")
	if want := "SCHEDULE CHANGE nightly unchanged other created old deleted"; end.code != 0 || change(end.stdout) != want {
		t.Errorf("%+v", end)
	}
	if want := append(tried, "PUT /other  "+other, "DELETE /old"); !slices.Equal(*asked, want) {
		t.Errorf("asked %q", *asked)
	}
	write("nightly.yaml", "cron: 0 0 * * *\njob: {type: REPORT, payload: {kind: jobs}}\n")
	for _, more := range [][]string{{"--dry-run"}, nil} {
		end = f.cli(t, world{}, append([]string{"schedules", "apply", "-f", filepath.Join(dir, "nightly.yaml")}, more...)...)
		if want := "SCHEDULE CHANGE nightly changed"; end.code != 0 || change(end.stdout) != want {
			t.Errorf("%v: %+v", more, end)
		}
	}
	*asked = nil
	write("z.json", `{"cron":"0 0 * * *","job":{"type":"REFUSED"}}`)
	end = f.cli(t, world{}, "schedules", "apply", "-f", dir, "--prune")
	if end.code == 0 || end.stdout != "" || !strings.Contains(end.stderr, "schedule z: ") {
		t.Errorf("the server refuses one: %+v", end)
	}
	for _, a := range *asked {
		if strings.HasPrefix(a, "DELETE") || strings.HasPrefix(a, "PUT") && !strings.Contains(a, "dryRun=true") {
			t.Errorf("the server refuses one, and is asked %s", a)
		}
	}
	if err := os.Remove(filepath.Join(dir, "z.json")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"c.yaml": "cron: x\nnope: 1\n", "d.json": `{"name":"other"}`, "e.json": "{", "f.yml": "a: b: c", "g.json": "{}{}",
		"h.yaml": "cron: 0 0 * * *\njob: {type: A}\n---\ncron: 0 1 * * *\njob: {type: B}\n", "i.yaml": "# nothing\n",
		"j.json": "null", "k.json": "",
	} {
		write(name, text)
		*asked = nil
		if end := f.cli(t, world{}, "schedules", "apply", "-f", dir); end.code != 2 || len(*asked) > 0 {
			t.Errorf("%s: %+v, asked %q", name, end, *asked)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if end := f.cli(t, world{}, "schedules", "apply", "-f", filepath.Join(dir, "nowhere")); end.code == 0 {
		t.Errorf("%+v", end)
	}
}

// A file that cannot be a schedule is refused in words that name its member, and a number of seconds is not another
// number because it is large.
func TestSchedulesApply_Words(t *testing.T) {
	f := newFake(t)
	scheduleServer(f)
	file := filepath.Join(t.TempDir(), "x.yaml")
	for text, want := range map[string]string{
		"everySeconds: x\njob: {type: A}":   "everySeconds: string does not fit",
		"everySeconds: 1.5":                 "everySeconds: number 1.5 does not fit",
		"cron: 0 0 * * *\njob: {type: [1]}": "job.type: array does not fit",
		"cron: 0 0 * * *\nstart: tomorrow":  `tomorrow is no time such as 2026-12-01T08:00:00Z`,
		"- a":                               "must be one schedule",
		"nope: 1":                           `unknown field "nope"`,
		"a: 1\n---\nb: 1":                   "has more than one schedule",
		"--- \n":                            "has no schedule",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		end := f.cli(t, world{}, "schedules", "apply", "-f", file)
		if end.code != 2 || !strings.Contains(end.stderr, file+": "+want) || strings.Contains(end.stderr, "Go ") {
			t.Errorf("%q: %+v", text, end)
		}
	}
	for text, want := range map[string]int{
		"": 0, "# a\n": 0, "a: 1": 1, "---\na: 1\n": 1, "--- {a: 1}\n": 1, "a: 1\n---\n": 1, "a: 1\n---\n# b\n": 1,
		"a: 1\n---\nb: 1\n": 2, "a: 1\r\n---\r\nb: 1": 2, "a: |\n  ---\n  b\n": 1, "a: ---b\n---c: 1\n": 1,
	} {
		if n := documents([]byte(text)); n != want {
			t.Errorf("%q has %d documents, want %d", text, n, want)
		}
	}
	if far := wholeSeconds(18446744079); far < 366*24*time.Hour {
		t.Errorf("18446744079 s are %s", far)
	}
}
