package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// shownBatch is a batch as the API shows it.
type shownBatch struct {
	BatchID   string  `json:"batchId"`
	State     string  `json:"state"`
	Round     int     `json:"round"`
	Sealed    bool    `json:"sealed"`
	Total     int     `json:"total"`
	Living    int     `json:"living"`
	Completed int     `json:"completed"`
	Failed    int     `json:"failed"`
	Cancelled int     `json:"cancelled"`
	ThenJobID *string `json:"thenJobId"`
}

// batchLoad is a batch whose members are submitted while servers are killed.
type batchLoad struct {
	*cluster
	api    atomic.Pointer[server]
	killed atomic.Int64
	id     string
	over   chan struct{}
}

// asks repeats a request until it has one of these statuses. A killed server, and a Redis that is away, are no answer.
func (l *batchLoad) asks(method, path, body string, want ...int) answer {
	l.t.Helper()
	var got answer
	testkit.Eventually(l.t, 90*time.Second, method+" "+path, func() (bool, string) {
		a, err := try(method, l.api.Load().base+path, body)
		if err != nil {
			return false, err.Error()
		}
		got = a
		return slices.Contains(want, a.status), fmt.Sprintf("%d %.300s", a.status, a.body)
	})
	return got
}

func (l *batchLoad) shown() (b shownBatch) {
	l.t.Helper()
	a := l.asks(http.MethodGet, "/api/batches/"+l.id, "", http.StatusOK)
	if err := json.Unmarshal(a.body, &b); err != nil {
		l.t.Fatalf("%v: %s", err, a.body)
	}
	return b
}

// members returns the ids of the members with a status.
func (l *batchLoad) members(status string) (ids []string) {
	l.t.Helper()
	for cursor := ""; ; {
		a := l.asks(http.MethodGet, "/api/batches/"+l.id+"/members?limit=100&status="+status+cursor, "", http.StatusOK)
		var page struct {
			Items []struct {
				JobID string `json:"jobId"`
			} `json:"items"`
			Next *string `json:"next"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			l.t.Fatalf("%v: %s", err, a.body)
		}
		for _, m := range page.Items {
			ids = append(ids, m.JobID)
		}
		if page.Next == nil {
			return ids
		}
		cursor = "&cursor=" + *page.Next
	}
}

// requeues requeues a job; a repeat of the request is the same requeue.
func (l *batchLoad) requeues(id string) {
	l.t.Helper()
	testkit.Eventually(l.t, 90*time.Second, "it is requeued", func() (bool, string) {
		a, err := try(http.MethodPost, l.api.Load().base+"/jobs/"+id+"/retry", "", "Idempotency-Key", "again-"+id)
		return err == nil && a.status == http.StatusAccepted, fmt.Sprintf("%v %.300s", err, a.body)
	})
}

// submit submits members from a number on, each under a key of its own, until all are accepted.
func (l *batchLoad) submit(from int, bodies []string) {
	left := map[int]string{}
	for i, body := range bodies {
		left[from+i] = fmt.Sprintf(`%s,"batch":%q,"idempotencyKey":"member-%d"}`, strings.TrimSuffix(body, "}"), l.id, from+i)
	}
	for end := time.Now().Add(2 * time.Minute); len(left) > 0 && time.Now().Before(end); {
		var numbers []int
		var entries []string
		for n, line := range left {
			numbers, entries = append(numbers, n), append(entries, line)
		}
		a, err := try(http.MethodPost, l.api.Load().base+"/paid/submit/batch", strings.Join(entries, "\n"), "Content-Type",
			"application/x-ndjson")
		var r struct {
			Data []entry `json:"apiResponseData"`
		}
		if err != nil || json.Unmarshal(a.body, &r) != nil || len(r.Data) != len(entries) {
			<-time.After(50 * time.Millisecond)
			continue
		}
		for i, e := range r.Data {
			if e.ErrorCode == "" {
				delete(left, numbers[i])
			}
		}
	}
	if len(left) > 0 {
		l.t.Errorf("%d members were not accepted", len(left))
	}
}

// crew starts two servers that accept and two that work, and returns the function that kills one after the other with
// SIGKILL and starts it again, until the load is over.
func (l *batchLoad) crew(every time.Duration, env ...string) (kills func()) {
	const accepts, works = "api,recovery", "worker,recovery"
	start := func(role string) *server { return l.start(append([]string{"TIERQ_ROLES=" + role}, env...)...) }
	apis, workers := []*server{start(accepts), start(accepts)}, []*server{start(works), start(works)}
	l.api.Store(apis[0])
	return func() {
		for n := 0; ; n++ {
			select {
			case <-l.over:
				return
			case <-time.After(every + time.Duration(rand.IntN(200))*time.Millisecond):
			}
			of, role, victim := workers, works, n%2
			if n%3 == 2 {
				of, role = apis, accepts
				l.api.Store(apis[1-victim])
			}
			if err := of[victim].Kill(); err != nil {
				l.t.Error(err)
			}
			l.killed.Add(1)
			of[victim] = start(role)
		}
	}
}

// endsRound waits for the end of a round and returns the batch. Then it checks that the then job was owed once for each
// round so far, and that this round's arrived in Redis after the last member had ended.
func (l *batchLoad) endsRound(round int) shownBatch {
	l.t.Helper()
	var b shownBatch
	testkit.Eventually(l.t, 2*time.Minute, fmt.Sprint("round ", round, " has ended"), func() (bool, string) {
		b = l.shown()
		return b.Living == 0 && b.State == "FINISHED" && b.Round == round, fmt.Sprintf("%+v", b)
	})
	testkit.Eventually(l.t, time.Minute, "the then job has run", func() (bool, string) {
		var ended int
		l.row("SELECT COUNT(*) FROM job_results WHERE job_id = '"+*b.ThenJobID+"'", &ended)
		return ended == 1, fmt.Sprint(ended)
	})
	var early, last string
	l.row("SELECT (SELECT arrived_at FROM job_results WHERE job_id = '"+*b.ThenJobID+"') < (SELECT MAX(ended_at) - "+
		"INTERVAL 1000 MICROSECOND FROM batch_members WHERE batch_id = '"+l.id+"'), (SELECT MAX(ended_at) FROM "+
		"batch_members WHERE batch_id = '"+l.id+"')", &early, &last)
	if early != "0" {
		l.t.Errorf("round %d: the then job came before the last member's end at %s", round, last)
	}
	return b
}

// A batch's members run while servers are killed with SIGKILL and Redis loses everything, with the accept journal and
// without. Some members fail and are requeued. The then job runs for each round, once a round, after the last member.
func TestBatchThenOnceARound(t *testing.T) {
	t.Attr("proves", "F07 F19")
	t.Parallel()
	for _, journal := range []string{"off", "on"} {
		t.Run("journal "+journal, func(t *testing.T) {
			t.Parallel()
			heavy(t)
			batchThenOnceARound(t, journal)
		})
	}
}

func batchThenOnceARound(t *testing.T, journal string) {
	l := &batchLoad{cluster: newCluster(t), over: make(chan struct{})}
	dir := t.TempDir()
	good, thens, later := filepath.Join(dir, "runs"), filepath.Join(dir, "thens"), filepath.Join(dir, "later")
	kills := l.crew(300*time.Millisecond, "TIERQ_JOURNAL="+journal, "TIERQ_WORKERS=16")
	var b shownBatch
	a := l.asks(http.MethodPost, "/api/batches", fmt.Sprintf(`{"name":"import","tier":"paid","then":%s}`,
		counting(thens, 0)), http.StatusCreated)
	if err := json.Unmarshal(a.body, &b); err != nil {
		t.Fatal(err)
	}
	l.id = b.BatchID
	var killing, load sync.WaitGroup
	killing.Go(kills)
	const atOnce = 50
	fails := strings.TrimSuffix(counting(filepath.Join(later, "runs"), 0), "}") + `,"maxRetries":0}`
	for from := 0; from < batchMembers; from += atOnce {
		load.Go(func() {
			var bodies []string
			for i := range atOnce {
				if i%10 == 0 {
					bodies = append(bodies, fails)
				} else {
					bodies = append(bodies, counting(good, rand.IntN(250)))
				}
			}
			l.submit(from, bodies)
		})
		if from%(4*atOnce) == 0 { // a server is killed in each part of the load
			load.Wait()
			before := l.killed.Load()
			testkit.Eventually(t, time.Minute, "a server is killed", func() (bool, string) {
				return l.killed.Load() > before, ""
			})
		}
		if from == batchMembers/2 {
			if err := l.rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	load.Wait()
	l.asks(http.MethodPost, "/api/batches/"+l.id+"/seal", "", http.StatusOK)
	l.restartRedisEmpty()
	b = l.endsRound(1)
	if b.Total != batchMembers || b.Failed < batchMembers/10 || b.Completed+b.Failed != b.Total {
		t.Errorf("%+v", b)
	}
	if err := os.Mkdir(later, 0o700); err != nil {
		t.Fatal(err)
	}
	failed := l.members("FAILED")
	for _, id := range failed {
		load.Go(func() { l.requeues(id) })
		if rand.IntN(8) == 0 {
			load.Wait()
		}
	}
	load.Wait()
	rounds := l.shown().Round
	b = l.endsRound(rounds)
	close(l.over)
	killing.Wait()
	if b.Total != batchMembers {
		t.Errorf("%+v", b)
	}
	var ran int
	testkit.Eventually(t, time.Minute, "the then jobs of the earlier rounds have run", func() (bool, string) {
		l.row("SELECT COUNT(*) FROM job_results WHERE job_id NOT IN (SELECT job_id FROM batch_members)", &ran)
		return ran >= rounds, fmt.Sprint(ran)
	})
	_, marks := executions(t, thens)
	if len(marks) != rounds || ran != rounds {
		t.Errorf("%d then jobs started and %d completed in %d rounds", len(marks), ran, rounds)
	}
	t.Logf("evidence: %d members, %d servers killed, Redis emptied twice, %d members requeued, %d rounds, %d then jobs",
		batchMembers, l.killed.Load(), len(failed), rounds, ran)
}

// SQL is down, and the accept journal is off. Submits to a batch are refused or in doubt, and answered in time; all
// other submits are accepted as before. When SQL is back, the batch goes on, and what was refused is no member.
func TestBatchNeedsSQL(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	m := testkit.NewMariaDB(t)
	l := &batchLoad{cluster: clusterWith(t, m.NewDatabase(t))}
	s := l.start()
	l.api.Store(s)
	var b shownBatch
	a := l.asks(http.MethodPost, "/api/batches", `{"name":"import"}`, http.StatusCreated)
	if err := json.Unmarshal(a.body, &b); err != nil {
		t.Fatal(err)
	}
	l.id = b.BatchID
	member := fmt.Sprintf(`{"batch":%q}`, l.id)
	first := s.submit("paid", member)
	s.await(first, "COMPLETED", 20*time.Second)
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	answers := map[int]int{}
	for range 4 {
		a := do(t, http.MethodPost, s.base+"/paid/submit", member)
		if answers[a.status]++; a.took > bound || a.status != http.StatusServiceUnavailable &&
			a.status != http.StatusGatewayTimeout {
			t.Errorf("a member: %d %s after %s", a.status, a.body, a.took)
		}
		if a := do(t, http.MethodPost, s.base+"/paid/submit", ""); a.status != http.StatusAccepted {
			t.Errorf("a plain job: %d %s", a.status, a.body)
		}
	}
	if a := do(t, http.MethodGet, s.base+"/readyz", ""); a.status != http.StatusOK {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	if err := m.Thaw(); err != nil {
		t.Fatal(err)
	}
	l.asks(http.MethodPost, "/api/batches/"+l.id+"/seal", "", http.StatusOK)
	testkit.Eventually(t, time.Minute, "the batch has finished", func() (bool, string) {
		b = l.shown()
		return b.State == "FINISHED", fmt.Sprintf("%+v", b)
	})
	if most := 1 + answers[http.StatusGatewayTimeout]; b.Total < 1 || b.Total > most || b.Completed != b.Total {
		t.Errorf("%+v, of 1 accepted and %d in doubt", b, most-1)
	}
	t.Logf("evidence: members while SQL was frozen: %v; in the end %d of %d", answers, b.Completed, b.Total)
}
