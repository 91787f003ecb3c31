//go:build long

package compat

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"github.com/tierq/tierq/internal/testkit"
)

// Two workers run 10,000 jobs through two processes. One worker is killed: its jobs come back after its reservation's
// end, and each job is done.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	doomed := startsWorker(t, all[0], files[0])
	startsWorker(t, all[1], files[1])
	const n = 10_000
	jids := pushesMany(t, all[0], n)
	eventually(t, "the worker runs jobs", func() (bool, string) { return len(lines(t, files[0])) > 500, "" })
	if err := doomed.Kill(); err != nil {
		t.Fatal(err)
	}
	startsWorker(t, all[0], files[2])
	c := all[1].dials()
	testkit.Eventually(t, 10*time.Minute, "all jobs are done", func() (bool, string) {
		d := state(t, c).Data
		return d.TotalProcessed >= n && d.TotalEnqueued == 0 && d.Sets["working"] == 0 && d.Sets["retries"] == 0,
			fmt.Sprintf("%+v", d)
	})
	seen, twice := lines(t, files...), 0
	for jid := range jids {
		if seen[jid] == 0 {
			t.Errorf("job %s did not run", jid)
		}
		if seen[jid] > 1 {
			twice++
		}
	}
	if twice > 20 { // as many as the killed worker ran at once
		t.Errorf("%d jobs ran more than once", twice)
	}
	if d := state(t, c).Data; d.TotalProcessed != n {
		t.Errorf("%d reports were counted for %d jobs", d.TotalProcessed, n)
	}
}

// A worker whose process of tierq died, and that connects to no other, is taken for dead. Its late ACK changes
// nothing: the worker that has the job ends it.
func TestZombie(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	zombie := all[0].worker("w-1")
	j := pushed(t, zombie, nil)
	fetched(t, zombie, j, "default")
	if err := all[0].Kill(); err != nil {
		t.Fatal(err)
	}
	next := all[1].worker("w-2")
	if again := fetchedFor(t, next, 5*time.Minute); again.Jid != j.Jid || again.Failure == nil {
		t.Fatalf("the next worker got %+v", again)
	}
	back := all[1].worker("w-1")
	if err := back.Ack(j.Jid); err != nil {
		t.Error(err)
	}
	if d := state(t, next).Data; d.Sets["working"] != 1 || d.TotalProcessed != 0 {
		t.Errorf("after the zombie's ACK: %+v", d)
	}
	if err := back.Fail(j.Jid, errBroken, nil); err == nil { // it was told once, and holds nothing now
		t.Error("a FAIL without a job was accepted")
	}
	if err := next.Ack(j.Jid); err != nil {
		t.Error(err)
	}
	if d := state(t, next).Data; d.Sets["working"] != 0 || d.TotalProcessed != 1 {
		t.Errorf("after the holder's ACK: %+v", d)
	}
}

// fetchedFor fetches until a job comes.
func fetchedFor(t *testing.T, c *faktory.Client, within time.Duration) (j *faktory.Job) {
	t.Helper()
	testkit.Eventually(t, within, "a job comes", func() (bool, string) {
		var err error
		if j, err = c.Fetch("default"); err != nil {
			t.Fatal(err)
		}
		return j != nil, ""
	})
	return j
}

// A worker whose event loop is blocked for three minutes sends no BEAT. Its connections are open, so its job stays its
// own: no other worker gets it.
func TestBlockedNodeWorker(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	blocked := make(chan string, 1)
	go func() { blocked <- node(t, all[0], "blocked.mjs", "180") }()
	other := all[1].worker("w-2")
	eventually(t, "the job runs", func() (bool, string) {
		d := state(t, other).Data
		return d.Sets["working"] == 1, fmt.Sprintf("%+v", d)
	})
	for {
		select {
		case out := <-blocked:
			if d := state(t, other).Data; d.TotalProcessed != 1 || d.TotalFailures != 0 {
				t.Errorf("afterwards there is %+v\n%s", d, out)
			}
			return
		default:
		}
		if j, err := other.Fetch("blocking"); j != nil || err != nil {
			t.Fatalf("another worker got %+v, %v", j, err)
		}
	}
}
