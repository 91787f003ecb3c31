package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each command of queues sends what its flags say.
func TestQueuesCommands(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"queues declare films":             `PUT /admin/queues/films {"limit":0}`,
		"queues declare films --no-logs":   `PUT /admin/queues/films {"limit":0,"logs":"off"}`,
		"queues declare films --limit 500": `PUT /admin/queues/films {"limit":500}`,
		"queues declare films --type A,B --max-processing 1h": `PUT /admin/queues/films {"limit":0,"types":["A","B"],` +
			`"maxProcessingSeconds":3600}`,
		"queues declare films --push https://x.example/a?b": `PUT /admin/queues/films {"limit":0,` +
			`"push":{"url":"https://x.example/a?b"}}`,
		"queues declare f --push http://x.example --permanent-4xx --push-concurrency 4 --push-key aaaaaaaaaaaaaaaa": `PUT ` +
			`/admin/queues/f {"limit":0,"push":{"url":"http://x.example","permanent4xx":true,"concurrency":4,` +
			`"key":"aaaaaaaaaaaaaaaa"}}`,
		"queues pause films":                "POST /admin/queues/films/pause ",
		"queues resume a:b":                 "POST /admin/queues/a:b/resume ",
		"queues delete films":               "DELETE /admin/queues/films ",
		"jobs list --queue films --limit 1": "GET /api/jobs?limit=1&queue=films ",
	} {
		f := newFake(t)
		end := f.cli(t, world{}, split(args)...)
		got := f.last()
		if sent := got.method + " " + got.path + " " + got.body; end.code != 0 || sent != want {
			t.Errorf("tierq %s: %+v, sent %q, want %q", args, end, sent, want)
		}
	}
	file := filepath.Join(t.TempDir(), "film.json")
	for text, want := range map[string]string{
		`{"type": "object"}`: `PUT /admin/queues/films {"limit":0,"schemas":{"A":{"type":"object"}}}`, `{"type":`: "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFake(t)
		end := f.cli(t, world{}, "queues", "declare", "films", "--schema", "A="+file)
		if want == "" {
			if end.code != 2 || !strings.Contains(end.stderr, "is no JSON") {
				t.Errorf("a schema that is no JSON: %+v", end)
			}
			continue
		}
		if got := f.last(); end.code != 0 || got.method+" "+got.path+" "+got.body != want {
			t.Errorf("%+v, sent %+v, want %s", end, got, want)
		}
	}
	f := newFake(t)
	end := f.cli(t, world{}, split("submit paid --queue films")...)
	if got := f.last(); end.code != 0 || !strings.Contains(got.body, `"queue":"films"`) {
		t.Errorf("%+v, sent %s", end, got.body)
	}
}

// A purge asks first, and goes on until no job is ready.
func TestQueuesPurge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args             string
		w                world
		code, calls      int
		stdout, inStderr string
	}{
		"yes": {
			"", world{tty: true, stdin: "y\n"}, 0, 2, "3000 cancelled\n", "Cancel all ready jobs of films? [y/N] ",
		},
		"no":          {"", world{tty: true, stdin: "n\n"}, 1, 0, "", "queue films: not confirmed"},
		"no terminal": {"", world{}, exitUsage, 0, "", "tierq cannot ask without a terminal: add --yes"},
		"said before": {" --yes", world{}, 0, 2, "3000 cancelled\n", ""},
		"as JSON":     {" --yes -o json", world{}, 0, 2, "{\n  \"cancelled\": 3000,\n  \"more\": false\n}\n", ""},
	} {
		f := newFake(t)
		end := f.cli(t, c.w, split("queues purge films"+c.args)...)
		if n := len(f.requests("POST", "/admin/queues/films/purge")); n != c.calls {
			t.Errorf("%s: %d calls, want %d", name, n, c.calls)
		}
		if end.code != c.code || end.stdout != c.stdout || !strings.Contains(end.stderr, c.inStderr) {
			t.Errorf("%s: %+v", name, end)
		}
	}
}
