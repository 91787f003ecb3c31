package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// replicated is a Redis whose masters have replicas that replace them.
type replicated interface {
	URL() string
	of(partition int) *testkit.Redis // the partition's master; nil = none
	heir(of *testkit.Redis) *testkit.Redis
	Settled(t testing.TB)
}

type clustered struct{ *testkit.Cluster }

func (c clustered) of(p int) *testkit.Redis               { return c.Master(queue.Key(p, "queue")) }
func (c clustered) heir(of *testkit.Redis) *testkit.Redis { return c.Replica(of) }

type watched struct{ *testkit.Sentinels }

func (w watched) of(int) *testkit.Redis                 { return w.Master() }
func (w watched) heir(of *testkit.Redis) *testkit.Redis { return w.Other(of) }

// fleet is two servers on a replicated Redis, with clients that submit without a pause.
type fleet struct {
	*cluster   // for its database
	stores     replicated
	rdb        redis.UniversalClient
	partitions int
	journal    bool
	file       string
	servers    []*server

	stop    chan struct{}
	clients sync.WaitGroup
	mu      sync.Mutex
	when    map[string]time.Time // accepted jobs, and the time at which the client had the answer
	maybe   map[string]bool      // answered with 504
	refused int
	odd     []string
	worst   time.Duration
}

func newFleet(t *testing.T, stores replicated, partitions int, journal bool) *fleet {
	t.Helper()
	f := &fleet{
		cluster: &cluster{t: t, dsn: databasetest.Migrated(t), bin: testkit.BuildTierq(t, "failpoint")}, stores: stores,
		partitions: partitions,
		journal:    journal, file: filepath.Join(t.TempDir(), "runs"), stop: make(chan struct{}),
		when:  map[string]time.Time{},
		maybe: map[string]bool{},
	}
	clients, err := queue.Connect(stores.URL())
	if err != nil {
		t.Fatal(err)
	}
	f.rdb = clients.Main
	t.Cleanup(func() { _ = clients.Close() })
	if f.db, err = sql.Open("mysql", f.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.db.Close() })
	for range 2 {
		f.servers = append(f.servers, startServer(t, f.bin, "REDIS_URL="+stores.URL(), "MYSQL_DSN="+f.dsn,
			"TIERQ_ADDR=127.0.0.1:0",
			"TIERQ_INSECURE=on",
			"TIERQ_DATA_DIR="+t.TempDir(), fmt.Sprint("TIERQ_PARTITIONS=", partitions), "TIERQ_WORKERS=4",
			map[bool]string{true: "TIERQ_JOURNAL=on", false: "TIERQ_JOURNAL=off"}[journal]))
	}
	return f
}

// submitting starts the traffic: jobs of up to 30 ms, every fourth of which waits 3 s first.
func (f *fleet) submitting(clients int) {
	for n := range clients {
		f.clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-f.stop:
					return
				case <-time.After(25 * time.Millisecond):
				}
				body := counting(f.file, i%30)
				if i%4 == 0 {
					body = strings.TrimSuffix(body, "}") + `,"delaySeconds":3}`
				}
				f.submit(f.servers[n%len(f.servers)], body)
			}
		})
	}
}

func (f *fleet) submit(s *server, body string) {
	a, err := try(http.MethodPost, s.base+"/paid/submit", body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.odd = append(f.odd, err.Error())
		return
	}
	f.worst = max(f.worst, a.took)
	switch {
	case a.status == http.StatusAccepted:
		f.when[accepted(f.t, a)] = time.Now()
	case a.status == http.StatusServiceUnavailable:
		f.refused++
	case a.status == http.StatusGatewayTimeout && a.code() == "OUTCOME_UNKNOWN":
		var e struct {
			JobID string `json:"jobId"`
		}
		_ = json.Unmarshal(a.body, &e)
		f.maybe[e.JobID] = true
	default:
		f.odd = append(f.odd, fmt.Sprintf("%d %s", a.status, a.body))
	}
}

// accepted counts the accepted jobs of the partitions for which in returns true.
func (f *fleet) accepted(in func(p int) bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.when {
		if in(job.ID(id).Partition()) {
			n++
		}
	}
	return n
}

func (f *fleet) flows(in func(p int) bool, more int, when string) {
	f.t.Helper()
	before := f.accepted(in)
	testkit.Eventually(f.t, 30*time.Second, fmt.Sprintf("%d submits are accepted %s", more, when), func() (bool, string) {
		n := f.accepted(in) - before
		return n >= more, fmt.Sprint(n)
	})
}

// loss describes a master that dies before its replica has all its data.
type loss struct {
	dead       *testkit.Redis
	its        map[int]bool // the master's partitions
	cut, until time.Time    // no replica has the jobs accepted between these times
	answered   int          // the number of those jobs
}

func (l *loss) had(p int) bool { return l.its[p] }

// kill kills the master of partition 0. Before that it freezes the replica and cuts its connection, while another
// n submits are accepted on the master. The replica stays frozen until hold returns.
func (f *fleet) kill(n int, hold func(l *loss)) *loss {
	f.t.Helper()
	f.stores.Settled(f.t)
	l := &loss{dead: f.stores.of(0), its: map[int]bool{}}
	for p := range f.partitions {
		l.its[p] = f.stores.of(p) == l.dead
	}
	heir := f.stores.heir(l.dead)
	c := redis.NewClient(&redis.Options{Addr: l.dead.Addr()})
	defer func() { _ = c.Close() }()
	l.cut = time.Now()
	f.must(heir.Freeze())
	// The frozen replica will still read what was sent before, so the master's connection is closed: nothing more is
	// sent.
	f.must(c.Do(f.t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	before := f.accepted(l.had)
	f.flows(l.had, n, "that no replica has")
	f.must(l.dead.Kill())
	l.until, l.answered = time.Now(), f.accepted(l.had)-before
	if hold != nil {
		hold(l)
	}
	f.must(heir.Thaw())
	testkit.Eventually(f.t, 30*time.Second, "the replica is promoted",
		func() (bool, string) { return f.stores.of(0) == heir, "" })
	f.t.Logf("evidence: %s killed, %s promoted after %s; %d jobs were accepted that it never heard of", l.dead.Addr(),
		heir.Addr(),
		time.Since(l.until).Round(10*time.Millisecond), l.answered)
	return l
}

// back waits until the jobs that the promoted replica never had are in Redis again, or have ended. The servers
// restore them from the journal as soon as they see another incarnation, and not only at the next regular pass.
func (f *fleet) back(l *loss) {
	f.t.Helper()
	var gone []string
	f.mu.Lock()
	for id, at := range f.when {
		if l.had(job.ID(id).Partition()) && at.After(l.cut) && at.Before(l.until) {
			gone = append(gone, id)
		}
	}
	f.mu.Unlock()
	testkit.Eventually(f.t, 20*time.Second, fmt.Sprintf("%d jobs are back", len(gone)), func() (bool, string) {
		outcomes, missing := f.outcomes(), 0
		for _, id := range gone {
			if outcomes[id] != "" {
				continue
			}
			if there, err := inRedis(f.t.Context(), f.rdb, id); !there || err != nil {
				missing++
			}
		}
		return missing == 0, fmt.Sprint(missing, " are not")
	})
	f.t.Logf("all %d of them were back %s after the kill", len(gone), time.Since(l.until).Round(10*time.Millisecond))
}

// rest ends the traffic and waits until no job waits or runs. Then every job that may have an outcome must have
// exactly one. It returns the accepted jobs without an outcome.
func (f *fleet) rest(losses ...*loss) (lost []string) {
	t := f.t
	t.Helper()
	close(f.stop)
	f.clients.Wait()
	calm := 0
	testkit.Eventually(t, 120*time.Second, "everything is at rest", func() (bool, string) {
		waiting, rows := 0, 0
		for p := range f.partitions {
			for _, set := range []string{"queue", "scheduled", "heartbeat_deadlines", "run_deadlines", "outbox"} {
				n, err := f.rdb.ZCard(t.Context(), queue.Key(p, set)).Result()
				if err != nil {
					return false, err.Error()
				}
				waiting += int(n)
			}
		}
		f.row(`SELECT COUNT(*) FROM accepted_jobs`, &rows)
		if calm++; waiting > 0 || rows > 0 {
			calm = 0
		}
		return calm > 10, fmt.Sprintf("%d in sets, %d in the journal", waiting, rows)
	})
	for p := range f.partitions {
		// With ten thousand jobs a busy machine needs more time than the servers' clients allow.
		c := redis.NewClient(&redis.Options{Addr: f.stores.of(p).Addr(), ReadTimeout: time.Minute})
		s, err := queuetest.Read(context.Background(), c, p)
		f.must(err, c.Close())
		for _, wrong := range s.Audit() {
			t.Errorf("audit of partition %d: %s", p, wrong)
		}
	}
	outcomes := f.outcomes()
	for id := range f.when {
		switch outcomes[id] {
		case "COMPLETED":
		case "":
			lost = append(lost, id)
		default:
			t.Errorf("%s ended %s", id, outcomes[id])
		}
	}
	for id := range outcomes {
		if f.when[id].IsZero() && !f.maybe[id] {
			t.Errorf("%s has an outcome and was never accepted", id)
		}
	}
	var results, failed int
	f.row(`SELECT COUNT(*) FROM job_results`, &results)
	f.row(`SELECT COUNT(*) FROM failed_jobs`, &failed)
	if results+failed != len(outcomes) {
		t.Errorf("%d results and %d dead letters for %d outcomes", results, failed, len(outcomes))
	}
	_, marks := executions(t, f.file)
	again := 0
	for id := range outcomes {
		if len(marks[id]) > 2 {
			again++
		}
	}
	if len(f.odd) > 0 {
		t.Errorf("%d odd answers, the first: %s", len(f.odd), f.odd[0])
	}
	if f.worst > bound+time.Second { // slack: two dozen processes share the machine during the promotion
		t.Errorf("a submit was answered only after %s", f.worst)
	}
	t.Logf("%d accepted, %d refused, %d unknown, the slowest answer after %s; %d lost, %d of %d ran again", len(f.when),
		f.refused, len(f.maybe),
		f.worst.Round(time.Millisecond), len(lost), again, len(outcomes))
	f.explained(lost, losses)
	return lost
}

// explained checks the lost jobs against the promise: only jobs accepted while no replica was connected may be
// lost, and with the journal none.
func (f *fleet) explained(lost []string, losses []*loss) {
	f.t.Helper()
	for _, id := range lost {
		in := false
		for _, l := range losses {
			in = in || l.had(job.ID(id).Partition()) && f.when[id].After(l.cut) && f.when[id].Before(l.until.Add(bound))
		}
		if f.journal || !in {
			f.t.Errorf("%s was accepted at %s and is lost", id, f.when[id].Format(time.StampMilli))
		}
	}
}

// A master of a cluster dies with jobs that its replica never had. With the journal every accepted job ends once.
// Until the replica is promoted, the other masters' jobs are polled and run as usual.
func TestClusterFailover(t *testing.T) {
	t.Attr("proves", "F24")
	t.Parallel()
	f := newFleet(t, clustered{testkit.NewCluster(t, 3)}, 6, true)
	f.submitting(4)
	f.flows(func(int) bool { return true }, 60, "before the fault")
	l := f.kill(10, func(l *loss) {
		others := func(p int) bool { return !l.had(p) }
		done := func() (n int) {
			order, _ := executions(t, f.file)
			for _, id := range order {
				if others(job.ID(id).Partition()) {
					n++
				}
			}
			return n
		}
		var known []string
		f.mu.Lock()
		for id := range f.when {
			if others(job.ID(id).Partition()) {
				known = append(known, id)
			}
		}
		f.mu.Unlock()
		for _, s := range f.servers {
			for _, id := range known[:min(10, len(known))] {
				if a := do(t, http.MethodGet, s.base+"/result/poll?jobId="+id, ""); a.status != http.StatusOK {
					t.Errorf("poll %s while another's master is dead: %d %s", id, a.status, a.body)
				}
			}
		}
		before := done()
		testkit.Eventually(t, 15*time.Second, "the others' jobs run",
			func() (bool, string) { n := done() - before; return n > 0, fmt.Sprint(n) })
		t.Logf("evidence: %d jobs of the others ran while nobody served partition 0", done()-before)
	})
	f.back(l)
	f.flows(l.had, 20, "by the promoted")
	f.rest(l)
}

// The same under sentinels, without the journal: at most the jobs accepted while the replica was cut off are lost,
// and all others end once.
func TestSentinelFailover(t *testing.T) {
	t.Attr("proves", "F24")
	t.Parallel()
	f := newFleet(t, watched{testkit.NewSentinel(t)}, 1, false)
	f.submitting(4)
	f.flows(func(int) bool { return true }, 60, "before the fault")
	l := f.kill(10, nil)
	f.flows(l.had, 20, "by the promoted")
	if lost := f.rest(l); len(lost) > l.answered+4 { // and one per client whose answer was in transit
		t.Errorf("%d lost of %d that were answered meanwhile", len(lost), l.answered)
	}
}

func (f *fleet) must(errs ...error) {
	f.t.Helper()
	for _, err := range errs {
		if err != nil {
			f.t.Fatal(err)
		}
	}
}
