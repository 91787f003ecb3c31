package main

import (
	"net/http"
	"strings"
	"testing"
)

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
