package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The commands make a batch, add jobs to it, seal it and wait, show, list and cancel it.
func TestBatch(t *testing.T) {
	f := newFake(t)
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	var asked []string
	state := "RUNNING"
	f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/batches") {
			return false
		}
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Idempotency-Key")+" "+body))
		shown := obj{"batchId": id, "name": "import", "state": state, "round": 1, "total": 4, "living": 1, "failed": 3,
			"progress": 0.75, "createdAt": "2026-05-01T11:31:57Z"}
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/api/batches":
			reply(w, http.StatusCreated, shown)
		case r.URL.Path == "/api/batches":
			reply(w, http.StatusOK, obj{"items": []obj{shown}, "next": nil})
		case strings.HasSuffix(r.URL.Path, "/members"):
			reply(w, http.StatusOK, obj{"items": []obj{{"jobId": id, "status": "FAILED", "generation": 2}}, "next": nil})
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			next := any("more")
			if r.URL.Query().Get("cursor") != "" {
				next = nil
			}
			reply(w, http.StatusOK, obj{"batchId": id, "cancelled": 2, "asked": 1, "next": next})
		default:
			reply(w, http.StatusOK, shown)
			state = "STUCK"
		}
		return true
	})
	end := f.cli(t, world{}, "batch", "create", "import", "--tier", "paid", "--then", "MAIL", "--data", `{"to":"a"}`,
		"--on", "succeeded", "--idempotency-key", "k")
	if end.code != 0 || end.stdout != id+"\n" {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, "batch", "seal", id, "--wait")
	if end.code != 3 || !strings.Contains(end.stdout, "3 of 4 (75 %)") || !strings.Contains(end.stderr, "is STUCK") {
		t.Errorf("%+v", end)
	}
	if end = f.cli(t, world{}, "batch", "show", id); end.code != 0 || !strings.Contains(end.stdout, "STUCK") {
		t.Errorf("%+v", end)
	}
	if end = f.cli(t, world{}, "batch", "list", "-o", "name"); end.stdout != id+"\n" {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, "batch", "members", id, "--status", "failed", "--all")
	if end.code != 0 || !strings.Contains(end.stdout, "FAILED") {
		t.Errorf("%+v", end)
	}
	if end = f.cli(t, world{}, "batch", "cancel", id); !strings.Contains(end.stdout, "4 cancelled, 2 running") {
		t.Errorf("%+v", end)
	}
	if end = f.cli(t, world{}, "batch", "create", "x", "--on", "finished"); end.code != exitUsage {
		t.Errorf("%+v", end)
	}
	at := "/api/batches/" + id
	want := []string{
		`POST /api/batches k {"name":"import","tier":"PAID","then":{"type":"MAIL","payload":{"to":"a"},"on":"succeeded"}}`,
		"POST " + at + "/seal", "GET " + at, "GET " + at, "GET /api/batches?limit=20",
		"GET " + at + "/members?limit=100&status=FAILED", "POST " + at + "/cancel", "POST " + at + "/cancel?cursor=more",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("%q\nwant %q", asked, want)
	}
}

// Submits name their batch: one job, and the lines of a file, of which each may name another.
func TestSubmitToABatch(t *testing.T) {
	f := newFake(t)
	const id, other = "019de340-01fe-7a58-be69-567cd7d6b7d4", "019de340-01fe-7a58-be69-567cd7d6b7d5"
	var bodies []string
	f.instead(func(_ http.ResponseWriter, _ *http.Request, body string) bool {
		bodies = append(bodies, body)
		return false
	})
	if end := f.cli(t, world{}, "submit", "paid", "--batch", id); end.code != 0 {
		t.Errorf("%+v", end)
	}
	file := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(file, []byte("{}\n{\"batch\":\""+other+"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if end := f.cli(t, world{}, "submit", "paid", "--file", file, "--batch", id); end.code != 0 {
		t.Errorf("%+v", end)
	}
	all := strings.Join(bodies, "\n")
	if strings.Count(all, `"batch":"`+id+`"`) != 2 || strings.Count(all, `"batch":"`+other+`"`) != 1 {
		t.Error(all)
	}
}

// A file makes a batch together with its jobs; with --wait the command waits for the end of a sealed batch.
func TestBatchSubmit(t *testing.T) {
	f := newFake(t)
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	var asked []string
	f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/batches") {
			return false
		}
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Idempotency-Key")+" "+body))
		shown := obj{"batchId": id, "name": "import", "state": "RUNNING", "sealed": true, "total": 2,
			"createdAt": "2026-05-01T11:31:57Z", "jobs": []string{id}}
		if r.Method == http.MethodPost {
			reply(w, http.StatusCreated, shown)
			return true
		}
		shown["state"] = "STUCK"
		reply(w, http.StatusOK, shown)
		return true
	})
	const body = `{"name":"import","sealed":true,"jobs":[{},{}]}`
	file := filepath.Join(t.TempDir(), "import.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	if end := f.cli(t, world{}, "batch", "submit", "-f", file, "--idempotency-key", "k"); end.code != 0 ||
		end.stdout != id+"\n" {
		t.Errorf("%+v", end)
	}
	if end := f.cli(t, world{}, "batch", "submit", "-f", file, "--wait"); end.code != 3 ||
		!strings.Contains(end.stdout, "STUCK") {
		t.Errorf("%+v", end)
	}
	if end := f.cli(t, world{}, "batch", "submit", "-f", file, "-o", "json"); !strings.Contains(end.stdout, `"jobs"`) {
		t.Errorf("%+v", end)
	}
	if len(asked) != 4 || asked[0] != "POST /api/batches k "+body {
		t.Errorf("%q", asked)
	}
	if err := os.WriteFile(file, []byte(`{"name":"import"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if end := f.cli(t, world{}, "batch", "submit", "-f", file, "--wait"); end.code != exitUsage || len(asked) != 4 {
		t.Errorf("%+v", end)
	}
	if end := f.cli(t, world{}, "batch", "submit"); end.code != exitUsage ||
		!strings.Contains(end.stderr, "--file is missing") {
		t.Errorf("%+v", end)
	}
}
