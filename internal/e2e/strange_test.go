package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Waiting jobs are edited in Redis by hand. A job with invalid JSON as its payload is a dead letter after one
// attempt. A job whose type no process knows is a dead letter after its usual attempts. A job whose head
// cannot be read is set aside, and continues after it is repaired. Other jobs run.
func TestEditedJobs(t *testing.T) {
	t.Attr("proves", "F51")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	c.plan("PAID", "backoffBaseMs", 100)
	file := filepath.Join(t.TempDir(), "runs")
	add := func() string {
		return api.submit("paid", strings.TrimSuffix(counting(file, 0), "}")+`,"maxRetries":1}`)
	}
	first, broken, foreign, unread, last := add(), add(), add(), add(), add()
	c.edit("job", broken, withPayload("{not json"))
	c.edit("job", foreign, func(record string) string {
		if !strings.Contains(record, " COUNT ") {
			t.Fatalf("the record %q does not name the type", record)
		}
		return strings.Replace(record, " COUNT ", " ELSEWHERE ", 1)
	})
	whole := c.record(unread)
	c.edit("job", unread, func(record string) string {
		parts := strings.SplitN(record, "\n", 3)
		return parts[0] + "\nnot a head\n" + parts[2]
	})

	worker := c.start("TIERQ_ROLES=worker", "TIERQ_UNKNOWN_FOR=1s")
	for _, tc := range []struct {
		id, cause string
		attempts  int
	}{{broken, "PERMANENT_ERROR", 1}, {foreign, "UNKNOWN_JOB_TYPE", 2}} {
		p := api.await(tc.id, "FAILED", 20*time.Second)
		if p.FailureCause == nil || *p.FailureCause != tc.cause {
			t.Errorf("%+v, want the cause %s", p, tc.cause)
		}
		c.counts(1, `SELECT COUNT(*) FROM failed_jobs WHERE job_id = '`+tc.id+`'`)
		var cause, words string
		var attempts int
		c.row(`SELECT failure_cause, last_error, attempts FROM failed_jobs WHERE job_id = '`+tc.id+`'`, &cause, &words,
			&attempts)
		if cause != tc.cause || attempts != tc.attempts || words == "" {
			t.Errorf("dead letter: %s %q after %d attempts, want %s after %d", cause, words, attempts, tc.cause, tc.attempts)
		}
	}
	for _, id := range []string{first, last} {
		api.await(id, "COMPLETED", 10*time.Second)
	}
	testkit.Eventually(t, 5*time.Second, "what cannot be read is set aside", func() (bool, string) {
		return c.rdb.ZScore(t.Context(), "{tierq:0}:quarantine", unread).Err() == nil, ""
	})
	if c.leased(unread) || strings.Contains(worker.Output(), unread) {
		t.Error("somebody ran what nobody can read")
	}

	c.edit("job", unread, func(string) string { return whole })
	if a := do(t, http.MethodPost, api.base+"/admin/consistency", ""); a.status != http.StatusOK {
		t.Fatalf("a pass of the audit: %d %s", a.status, a.body)
	}
	api.await(unread, "COMPLETED", 10*time.Second)
	ids := []string{first, broken, foreign, unread, last}
	outcomes := c.settled(20*time.Second, ids...)
	_, marks := executions(t, file)
	for _, id := range ids {
		ran, want := len(marks[id]), 2
		if outcomes[id] == "FAILED" {
			want = 0
		}
		if ran != want {
			t.Errorf("%s ended %s and left %d marks, want %d", id, outcomes[id], ran, want)
		}
	}
	if code, _ := worker.terminate(10 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
}
