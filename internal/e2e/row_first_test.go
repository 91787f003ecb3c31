package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A process dies after SQL has a submit's journal row and before it calls Redis. Its client gets no answer. The
// job runs once, and a repeat under the key is answered with this job.
func TestRowFirstKilledBeforeTheScript(t *testing.T) {
	t.Attr("proves", "F19 S13")
	t.Parallel()
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "runs")
	c.start("TIERQ_ROLES=worker,recovery", "TIERQ_JOURNAL=on")
	doomed := c.start("TIERQ_ROLES=api", "TIERQ_JOURNAL=on", "TIERQ_FAILPOINTS=journal.after=kill")
	testkit.Eventually(t, 30*time.Second, "the process is killed", func() (bool, string) {
		a, err := try(http.MethodPost, doomed.base+"/paid/submit", counting(file, 0), "Idempotency-Key", "the-one")
		if err == nil && a.status != http.StatusServiceUnavailable { // a busy machine's 503 leaves no row
			t.Fatalf("a killed process answered %d", a.status)
		}
		return err != nil, fmt.Sprint(a.status)
	})
	api := c.start("TIERQ_ROLES=api", "TIERQ_JOURNAL=on")
	var id string
	testkit.Eventually(t, 30*time.Second, "a repeat is answered", func() (bool, string) {
		a := do(t, http.MethodPost, api.base+"/paid/submit", counting(file, 0), "Idempotency-Key", "the-one")
		if a.status == http.StatusAccepted {
			id = accepted(t, a)
			if a.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("the repeat made a job of its own: %s", a.body)
			}
		}
		return a.status == http.StatusAccepted, fmt.Sprint(a.status)
	})
	c.settled(30*time.Second, id)
	if runs, marks := executions(t, file); len(runs) != 1 || len(marks) != 1 {
		t.Errorf("it ran %v", runs)
	}
}

// A submit that Redis refuses leaves neither row nor key in SQL, and never runs. A repeat of it is a new submit.
func TestRefusedLeavesNoRow(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "runs")
	api := c.start("TIERQ_ROLES=api,recovery", "TIERQ_JOURNAL=on", "TIERQ_CAPACITY=2")
	keyed := func(n int) answer {
		return do(t, http.MethodPost, api.base+"/paid/submit", counting(file, 0), "Idempotency-Key", fmt.Sprint("key-", n))
	}
	var ids []string
	for n := range 10 {
		switch a := keyed(n); a.status {
		case http.StatusAccepted:
			ids = append(ids, accepted(t, a))
		case http.StatusServiceUnavailable:
			if !strings.Contains(string(a.body), "QUEUE_FULL") {
				t.Errorf("refused with %s", a.body)
			}
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if len(ids) != 2 {
		t.Fatalf("accepted %v of a capacity of 2", ids)
	}
	var rows, keys int
	c.row("SELECT (SELECT COUNT(*) FROM accepted_jobs), (SELECT COUNT(*) FROM idempotency_keys)", &rows, &keys)
	if rows != 2 || keys != 2 {
		t.Errorf("%d rows and %d keys of two jobs", rows, keys)
	}
	c.start("TIERQ_ROLES=worker", "TIERQ_JOURNAL=on", "TIERQ_CAPACITY=2")
	c.settled(30*time.Second, ids...)
	testkit.Eventually(t, 10*time.Second, "a refused key is taken anew", func() (bool, string) {
		a := keyed(9)
		if a.status == http.StatusAccepted {
			ids = append(ids, accepted(t, a))
		}
		return a.status == http.StatusAccepted && a.header.Get("Idempotency-Replayed") == "", fmt.Sprint(a.status)
	})
	c.settled(30*time.Second, ids...)
	if _, marks := executions(t, file); len(marks) != 3 {
		t.Errorf("%d jobs ran, three were accepted", len(marks))
	}
	c.row("SELECT COUNT(*), 0 FROM accepted_jobs", &rows, &keys)
	if rows != 0 {
		t.Errorf("%d rows of jobs that have ended", rows)
	}
}
