package e2e

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // to read the rows that an embedded server wrote
	"github.com/tierq/tierq/internal/testkit"
)

// An embedded server is killed repeatedly under load. Every accepted job (202) ends with one outcome, and every
// key makes one job.
func TestEmbeddedKilledInALoop(t *testing.T) {
	t.Attr("proves", "F07")
	t.Parallel()
	heavy(t)
	e := newEmbedded(t)
	file := filepath.Join(t.TempDir(), "runs")
	l := newEmbeddedLoad(t, file)
	var load sync.WaitGroup
	for n := range 4 {
		load.Go(func() { l.submit(n) })
	}
	for range embeddedKills {
		e.start()
		l.base.Store(e.server.base)
		before := len(l.ids())
		testkit.Eventually(t, 20*time.Second, "some jobs are accepted", func() (bool, string) {
			accepted := len(l.ids()) - before
			return accepted >= 4, fmt.Sprint(accepted)
		})
		<-time.After(time.Duration(rand.IntN(400)) * time.Millisecond)
		if err := e.server.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	e.start()
	l.base.Store(e.server.base)
	close(l.over)
	load.Wait()
	ids := l.ids()
	outcomes := e.settled(60*time.Second, len(ids))
	for _, id := range ids {
		if outcomes[id] == "" {
			t.Errorf("lost: %s was accepted and has no outcome", id)
		}
	}
	again := 0
	_, marks := executions(t, file)
	for id, m := range marks {
		starts := 0
		for _, line := range m {
			if strings.HasSuffix(line, " start") {
				starts++
			}
		}
		again += starts - 1
		if starts > 1 && outcomes[id] == "" {
			t.Errorf("%s ran %d times and has no outcome", id, starts)
		}
	}
	var failed int
	for _, o := range outcomes {
		if o == "FAILED" {
			failed++
		}
	}
	t.Logf("evidence: %d kills while %d jobs were accepted (%d submits in doubt, %d repeated under their key); %d "+
		"executions beyond the first, %d ended FAILED",
		embeddedKills, len(ids), l.doubts, l.repeats, again, failed)
	if len(ids) < 4*embeddedKills {
		t.Errorf("only %d jobs in %d kills: no load", len(ids), embeddedKills)
	}
	l.keysMadeOneJobEach(e)
}

// A job that kills its process is tried maxRetries + 1 times, or maxCrashes + 1 times if its plan has that, also if the
// queue dies with the process: the journal row keeps both counts. The others survive.
func TestEmbeddedPoison(t *testing.T) {
	t.Attr("proves", "F46")
	t.Parallel()
	t.Run("maxCrashes", func(t *testing.T) {
		t.Parallel()
		embeddedPoison(t, 2, 3, 0)
	})
	t.Run("maxRetries", func(t *testing.T) {
		t.Parallel()
		embeddedPoison(t, nil, 2, 1)
	})
}

func embeddedPoison(t *testing.T, maxCrashes any, dies, retries int) {
	e := newEmbedded(t)
	e.start()
	e.server.tune("PUBLIC", map[string]any{"maxCrashes": maxCrashes})
	if maxCrashes != nil {
		e.server.tune("PAID", map[string]any{"maxCrashes": 3}) // the neighbour may be running at each crash
	}
	later := e.server.submit("paid", `{"type":"SIMULATION","delaySeconds":4}`)
	neighbour := e.server.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":300}]}}`)
	poison := e.server.submit("public", `{"type":"CRASH","payload":{"afterMs":50}}`)
	crashes := 0
	testkit.Eventually(t, 60*time.Second, "the poison is a dead letter", func() (bool, string) {
		if e.server.Exited() {
			crashes++
			e.start()
		}
		a, err := try(http.MethodGet, e.server.base+"/result/poll?jobId="+poison, "")
		return err == nil && strings.Contains(string(a.body), `"FAILED"`), fmt.Sprint(crashes, " crashes")
	})
	if crashes != dies {
		t.Errorf("%d crashes, want %d", crashes, dies)
	}
	for _, id := range []string{neighbour, later} {
		if p := e.server.await(id, "COMPLETED", 20*time.Second); p.RetryCount > retries*dies {
			t.Errorf("%s lost %d retries in %d crashes", id, p.RetryCount, crashes)
		}
	}
	if p := e.server.poll(poison); p.FailureCause == nil || *p.FailureCause != "HEARTBEAT_STOPPED" ||
		p.RetryCount != retries {
		t.Errorf("the poison ended %+v", p)
	}
}

// An orderly stop and start cost no retry; jobs keep their places, and cancelled jobs stay cancelled.
func TestEmbeddedStopKeepsPlaces(t *testing.T) {
	t.Attr("proves", "F09")
	t.Parallel()
	e := newEmbedded(t, "TIERQ_WORKERS=1", "TIERQ_DRAIN_TIMEOUT=200ms")
	e.start()
	running := e.server.submit("public", `{"payload":{"steps":[{"type":"SLEEP","durationMs":2000}]}}`)
	e.server.await(running, "PROCESSING", 5*time.Second)
	waiting := e.server.submit("public", `{}`)
	first := e.server.poll(waiting).ArrivedAt
	delayed := e.server.submit("paid", `{"delaySeconds":3}`)
	cancelled := e.server.submit("public", `{}`)
	if a := do(t, http.MethodDelete, e.server.base+"/admin/jobs/"+cancelled, ""); a.status >= 300 {
		t.Fatalf("cancel: %d %s", a.status, a.body)
	}
	e.server.terminate(20 * time.Second)
	e.start()
	if p := e.server.poll(waiting); !p.ArrivedAt.Equal(first) {
		t.Errorf("arrived %s, before the restart %s", p.ArrivedAt, first)
	}
	for _, id := range []string{running, waiting, delayed} {
		if p := e.server.await(id, "COMPLETED", 20*time.Second); p.RetryCount != 0 {
			t.Errorf("%s: %d retries spent by a restart", id, p.RetryCount)
		}
	}
	e.server.await(cancelled, "CANCELLED", 5*time.Second)
}

// embedded is an embedded server whose data folder outlives it.
type embedded struct {
	t      testing.TB
	dir    string
	env    []string
	server *server
}

func newEmbedded(t testing.TB, env ...string) *embedded {
	return &embedded{t: t, dir: t.TempDir(), env: env}
}

func (e *embedded) start() {
	e.t.Helper()
	e.server = startServer(e.t, testkit.BuildTierq(e.t, "failpoint"),
		append([]string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + e.dir}, e.env...)...)
}

// settled waits until the journal is empty and n jobs have their outcome, and returns the outcomes.
func (e *embedded) settled(within time.Duration, n int) map[string]string {
	e.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(e.dir, "tierq.sqlite")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	testkit.Eventually(e.t, within, "every accepted job has ended", func() (bool, string) {
		var living, ended int
		err := db.QueryRow(`SELECT (SELECT COUNT(*) FROM accepted_jobs), (SELECT COUNT(*) FROM `+endings+`)`).Scan(&living,
			&ended)
		return err == nil && living == 0 && ended >= n,
			fmt.Sprintf("%d in the journal, %d of %d ended, %v", living, ended, n, err)
	})
	outcomes := map[string]string{}
	rows, err := db.Query(`SELECT job_id, outcome FROM ` + endings)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, outcome string
		if err := rows.Scan(&id, &outcome); err != nil {
			e.t.Fatal(err)
		}
		if outcomes[id] != "" {
			e.t.Errorf("two outcomes of %s", id)
		}
		outcomes[id] = outcome
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return outcomes
}
