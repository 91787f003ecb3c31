package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// madeBatch is the answer to the call that makes a batch with its jobs.
type madeBatch struct {
	BatchID string   `json:"batchId"`
	Jobs    []string `json:"jobs"`
}

// makes makes a batch under a key. It asks again after a killed server, and while Redis is away.
func (l *batchLoad) makes(body, key string) (b madeBatch) {
	l.t.Helper()
	testkit.Eventually(l.t, 90*time.Second, "the batch is made", func() (bool, string) {
		a, err := try(http.MethodPost, l.api.Load().base+"/api/batches", body, "Idempotency-Key", key)
		if err != nil {
			return false, err.Error()
		}
		return a.status == http.StatusCreated && json.Unmarshal(a.body, &b) == nil, fmt.Sprintf("%d %.300s", a.status, a.body)
	})
	return b
}

// Batches are made, filled and sealed in one call each, while servers are killed with SIGKILL and Redis loses
// everything. Each key makes one batch, each batch has all of its jobs, and its then job runs once. The answer to a
// repeat names the same jobs.
func TestBatchInOneCall(t *testing.T) {
	t.Attr("proves", "F07 F19")
	t.Parallel()
	heavy(t)
	const batches, jobs = 8, 25
	l := &batchLoad{cluster: newCluster(t), over: make(chan struct{})}
	dir := t.TempDir()
	runs, thens := filepath.Join(dir, "runs"), filepath.Join(dir, "thens")
	kills := l.crew(400*time.Millisecond, "TIERQ_JOURNAL=off", "TIERQ_WORKERS=16")
	var killing, load sync.WaitGroup
	killing.Go(kills)
	body := func(n int) string {
		return fmt.Sprintf(`{"name":"import %d","tier":"paid","then":%s,"sealed":true,"jobs":[%s]}`, n, counting(thens, 0),
			strings.Repeat(counting(runs, 20)+",", jobs-1)+counting(runs, 0))
	}
	made := make([]madeBatch, batches)
	for n := range batches {
		load.Go(func() { made[n] = l.makes(body(n), fmt.Sprint("import-", n)) })
		if n%2 == 1 { // a server is killed in each part of the load
			load.Wait()
			before := l.killed.Load()
			testkit.Eventually(t, time.Minute, "a server is killed", func() (bool, string) {
				return l.killed.Load() > before, ""
			})
		}
		if n == batches/2 {
			if err := l.rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	load.Wait()
	close(l.over)
	killing.Wait()
	ids := map[string]bool{}
	for n, b := range made {
		again := l.makes(body(n), fmt.Sprint("import-", n))
		if again.BatchID != b.BatchID || !slices.Equal(again.Jobs, b.Jobs) || len(b.Jobs) != jobs {
			t.Errorf("a repeat is answered with %+v instead of %+v", again, b)
		}
		l.id = b.BatchID
		got := l.endsRound(1)
		if got.Total != jobs || got.Completed != jobs {
			t.Errorf("%+v", got)
		}
		if members := l.members("COMPLETED"); !slices.Equal(slices.Sorted(slices.Values(members)), b.Jobs) {
			t.Errorf("the members are %q instead of %q", members, b.Jobs)
		}
		for _, id := range b.Jobs {
			ids[id] = true
		}
	}
	l.counts(batches, "SELECT COUNT(*) FROM batches")
	l.counts(batches*jobs, "SELECT COUNT(*) FROM batch_members")
	_, marks := executions(t, runs)
	for id := range marks {
		delete(ids, id)
	}
	if len(ids) > 0 {
		t.Errorf("jobs that never ran: %q", slices.Collect(maps.Keys(ids)))
	}
	_, marks = executions(t, thens)
	if len(marks) != batches {
		t.Errorf("%d then jobs for %d batches", len(marks), batches)
	}
	wantProblemWithoutTrace(l)
	t.Logf("evidence: %d batches of %d jobs in one call each, %d servers killed, Redis emptied", batches, jobs,
		l.killed.Load())
}

// wantProblemWithoutTrace checks that a batch with one bad job is refused and leaves nothing behind.
func wantProblemWithoutTrace(l *batchLoad) {
	l.t.Helper()
	var before, after int
	l.row("SELECT COUNT(*) FROM batches", &before)
	a := l.asks(http.MethodPost, "/api/batches", `{"name":"a","jobs":[{},{"type":"NOPE"}]}`,
		http.StatusUnprocessableEntity)
	l.row("SELECT COUNT(*) FROM batches", &after)
	if !strings.Contains(string(a.body), "jobs.1.type") || before != after {
		l.t.Errorf("%s; %d batches, %d before", a.body, after, before)
	}
}

// An embedded server makes a batch with its jobs in one call, too.
func TestBatchInOneCall_Embedded(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	e.start()
	a := do(t, http.MethodPost, e.server.base+"/api/batches", `{"name":"a","sealed":true,"then":{"type":"SIMULATION"},
		"jobs":[{},{"tier":"paid","delaySeconds":0.2},{"type":"SIMULATION"}]}`)
	var made madeBatch
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated || len(made.Jobs) != 3 {
		t.Fatalf("%d %s %v", a.status, a.body, err)
	}
	var b shownBatch
	testkit.Eventually(t, 30*time.Second, "the batch has finished", func() (bool, string) {
		a := do(t, http.MethodGet, e.server.base+"/api/batches/"+made.BatchID, "")
		return json.Unmarshal(a.body, &b) == nil && b.State == "FINISHED", string(a.body)
	})
	if b.Completed != 3 || b.ThenJobID == nil {
		t.Errorf("%+v", b)
	}
	e.server.await(*b.ThenJobID, "COMPLETED", 20*time.Second)
}
