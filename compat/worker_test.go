package compat

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	worker "github.com/contribsys/faktory_worker_go"

	faktory "github.com/contribsys/faktory/client"

	"github.com/tierq/tierq/internal/testkit"
)

// workerVariable makes this test's program a worker: it names the file to which the worker adds a line per job.
const workerVariable = "COMPAT_WORKER"

// runWorker runs the jobs of the queue default until the process is told to end.
func runWorker() error {
	out, err := os.OpenFile(os.Getenv(workerVariable), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	m := worker.NewManager()
	m.Concurrency, m.ShutdownTimeout = 20, 5*time.Second
	m.Register("Films::Cut", func(ctx context.Context, _ ...any) error {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
		_, err := fmt.Fprintln(out, worker.HelperFor(ctx).Jid())
		return err
	})
	m.ProcessStrictPriorityQueues("default")
	fmt.Println("the worker runs")
	return m.Run()
}

// startsWorker starts a worker as a process of its own.
func startsWorker(t *testing.T, s *tierq, file string) *testkit.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := testkit.StartProcess(t, self, []string{workerVariable + "=" + file, "FAKTORY_URL=" + s.url})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.WaitOutput(ctx, "the worker runs"); err != nil {
		t.Fatal(err)
	}
	return p
}

// pushesMany pushes so many jobs, and returns their jids.
func pushesMany(t *testing.T, s *tierq, n int) map[string]bool {
	t.Helper()
	c, jids := s.dials(), map[string]bool{}
	for len(jids) < n {
		var batch []*faktory.Job
		for range min(500, n-len(jids)) {
			j := faktory.NewJob("Films::Cut", len(jids))
			batch, jids[j.Jid] = append(batch, j), true
		}
		if refused, err := c.PushBulk(batch); err != nil || len(refused) > 0 {
			t.Fatalf("refused %v, %v", refused, err)
		}
	}
	return jids
}

// lines counts the lines of a worker's file, by job.
func lines(t *testing.T, files ...string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for jid := range strings.FieldsSeq(string(text)) {
			seen[jid]++
		}
	}
	return seen
}

// Two worker processes of the Go library run all jobs, each once.
func TestGoWorkers(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for i, file := range files {
		startsWorker(t, all[i], file)
	}
	jids := pushesMany(t, all[0], 500)
	c := all[1].dials()
	eventually(t, "all jobs are done", func() (bool, string) {
		d := state(t, c).Data
		return d.TotalProcessed >= 500 && d.Sets["working"] == 0, fmt.Sprintf("%+v", d)
	})
	seen := lines(t, files...)
	for jid := range jids {
		if seen[jid] != 1 {
			t.Errorf("job %s ran %d times", jid, seen[jid])
		}
	}
	eventually(t, "both workers are listed", func() (bool, string) {
		got := all[0].calls("GET", "/admin/workers", "")
		return strings.Count(got, `"kind":"faktory"`) == 2, got
	})
}
