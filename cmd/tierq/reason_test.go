package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// jobs kill, jobs hasten and dead dismiss each send one request per job. A refused one does not stop the others.
func TestOperate(t *testing.T) {
	for args, c := range map[string]struct{ path, prints string }{
		"jobs kill":    {"/admin/jobs/*/kill", "FAILED"},
		"jobs hasten":  {"/admin/jobs/*/hasten", "PENDING"},
		"dead dismiss": {"/admin/dead/*/dismiss", "dismissed"},
	} {
		f := newFake(t)
		var sent []string
		f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
			if r.Method != http.MethodPost {
				return false
			}
			sent = append(sent, r.URL.Path)
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.URL.Path, pendingID) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write([]byte(`{"status":409,"errorCode":"INVALID_STATE_TRANSITION","detail":"the job is PROCESSING"}`))
				return true
			}
			_, _ = w.Write([]byte(`{"jobId":"` + failedID + `","status":"FAILED"}`))
			return true
		})
		end := f.cli(t, world{}, append(strings.Fields(args), pendingID, failedID)...)
		want := []string{strings.Replace(c.path, "*", pendingID, 1), strings.Replace(c.path, "*", failedID, 1)}
		if end.code == 0 || !slices.Equal(sent, want) || !strings.Contains(end.stdout, c.prints) ||
			!strings.Contains(end.stderr, "1 of 2 jobs were not") {
			t.Errorf("%s: exit %d, sent %q, %s%s", args, end.code, sent, end.stdout, end.stderr)
		}
		sent = nil
		if end = f.cli(t, world{}, append(strings.Fields(args), failedID)...); end.code != 0 || len(sent) != 1 {
			t.Errorf("%s: exit %d, sent %q: %s", args, end.code, sent, end.stderr)
		}
	}
}

// --reason is sent with every kind of change.
func TestReasonIsSent(t *testing.T) {
	for args, path := range map[string]string{
		"jobs cancel " + pendingID:                       "/api/jobs/" + pendingID + "/cancel",
		"dead requeue " + failedID:                       "/jobs/" + failedID + "/retry",
		"dead requeue --type SIMULATION --yes --limit 1": "/admin/dead/requeue",
	} {
		f := newFake(t)
		var sent []string
		f.instead(func(_ http.ResponseWriter, r *http.Request, body string) bool {
			if r.Method == http.MethodPost && r.URL.Path == path && !strings.Contains(body, `"dryRun":true`) {
				sent = append(sent, body)
			}
			return false
		})
		end := f.cli(t, world{}, append(strings.Fields(args), "--reason", "ordered twice")...)
		if end.code != 0 || len(sent) == 0 || !strings.Contains(sent[0], `"reason":"ordered twice"`) {
			t.Errorf("%s: exit %d, sent %q: %s", args, end.code, sent, end.stderr)
		}
	}
}
