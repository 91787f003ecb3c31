package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The commands submit a flow from a file, wait for it, show, list and cancel it.
func TestFlow(t *testing.T) {
	f := newFake(t)
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	var asked []string
	state := "RUNNING"
	flow := func() obj {
		return obj{"flowId": id, "name": "picture", "state": state,
			"counts": obj{"waiting": 1, "living": 1, "completed": 0}, "createdAt": "2026-05-01T11:31:57Z",
			"jobs": []obj{{"name": "resize", "jobId": id, "status": "FAILED", "type": "RESIZE", "after": []string{}},
				{"name": "publish", "jobId": id, "status": "WAITING", "type": "PUBLISH", "after": []string{"resize"}}}}
	}
	f.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/flows") {
			return false
		}
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Idempotency-Key")+" "+body))
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/api/flows":
			reply(w, http.StatusCreated, obj{"flowId": id, "jobs": obj{"resize": id}})
		case r.URL.Path == "/api/flows":
			reply(w, http.StatusOK, obj{"items": []obj{flow()}, "next": nil})
		default:
			reply(w, http.StatusOK, flow())
			state = "STUCK"
		}
		return true
	})
	const body = `{"name":"picture","jobs":{"resize":{},"publish":{"after":["resize"]}}}`
	file := filepath.Join(t.TempDir(), "flow.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	end := f.cli(t, world{}, "flow", "submit", "-f", file, "--idempotency-key", "k")
	if end.code != 0 || end.stdout != id+"\n" {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, "flow", "submit", "--file", file, "--idempotency-key", "k", "--wait")
	if end.code != 3 || !strings.Contains(end.stdout, "publish") || !strings.Contains(end.stderr, "is STUCK") {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, "flow", "show", id)
	if end.code != 0 || !strings.Contains(end.stdout, "WAITING") || !strings.Contains(end.stderr, "0 of 2 completed") {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, "flow", "list", "--state", "stuck", "-o", "name")
	if end.code != 0 || end.stdout != id+"\n" {
		t.Errorf("%+v", end)
	}
	if end := f.cli(t, world{}, "dead", "requeue", "--cascade", "--all"); end.code != 2 {
		t.Errorf("%+v", end)
	}
	end = f.cli(t, world{}, "flow", "cancel", id, "--reason", "enough")
	if end.code != 0 || !strings.Contains(end.stdout, "STUCK") {
		t.Errorf("%+v", end)
	}
	at := "/api/flows/" + id
	want := []string{
		"POST /api/flows k " + body, "POST /api/flows k " + body, "GET " + at, "GET " + at, "GET " + at,
		"GET /api/flows?limit=20&state=STUCK", "POST " + at + `/cancel  {"reason":"enough"}`,
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	for _, args := range [][]string{{"flow", "submit"}, {"flow", "show"}, {"flow", "cancel"}} {
		if end := f.cli(t, world{}, args...); end.code != 2 {
			t.Errorf("%v: %+v", args, end)
		}
	}
}
