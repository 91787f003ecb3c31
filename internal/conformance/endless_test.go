package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// endless takes the leases of handlers that never end: the worker says so in its log, sends no report for them, takes
// another job, and ends at SIGTERM.
func (f *fake) endless(t testing.TB, worker *testkit.Process) {
	t.Helper()
	var held []*job
	f.with(func() {
		for _, j := range f.jobs {
			if j.typ == "NEVER_END" {
				held = append(held, j)
				j.word = "LOST"
				if len(j.beats) == 0 && time.Since(j.handed) > 2*f.every {
					t.Errorf("no heartbeat for %s", j.id)
				}
			}
		}
	})
	const said = "the handler still runs although its attempt has ended"
	for end := time.Now().Add(10 * time.Second); strings.Count(worker.Output(), said) < len(held); {
		if worker.Exited() || time.Now().After(end) {
			t.Errorf("the log says %d times that a handler still runs, want %d:\n%s",
				strings.Count(worker.Output(), said), len(held), tail(worker.Output()))
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if worker.Exited() {
		t.Fatal("the worker has ended: ", tail(worker.Output()))
	}
	if err := f.lastJob(t, worker); err != nil {
		t.Error(err)
	}
	f.with(func() {
		for _, j := range held {
			if j.report != nil {
				t.Errorf("%s was reported after its lease was lost: %s", j.id, j.report)
			}
		}
	})
}
