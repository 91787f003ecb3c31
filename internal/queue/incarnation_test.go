package queue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// connected returns a queue on a server or cluster that no other test uses.
func connected(t *testing.T, url string, change func(*queue.Options)) *queuetest.Env {
	t.Helper()
	clients, err := queue.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	return queuetest.Open(t, clients, change)
}

// runsOf reads the incarnations of all partitions, once every server answers.
func runsOf(t *testing.T, e *queuetest.Env) (runs []string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, "the servers say which run it is", func() (bool, string) {
		var err error
		if runs, err = e.Incarnations(t.Context()); err != nil {
			return false, err.Error()
		}
		return !slices.Contains(runs, ""), strings.Join(runs, " ")
	})
	for _, run := range runs {
		if len(run) > 64 { // the width of the SQL column
			t.Errorf("a run of %d bytes: %q", len(run), run)
		}
	}
	return runs
}

// The incarnation changes with a restart and with a FLUSHALL, and with nothing else. If the server hides its run
// id, its data alone identifies it.
func TestRunID(t *testing.T) {
	t.Attr("proves", "F17 F19")
	t.Parallel()
	server := testkit.NewRedis(t)
	e := connected(t, server.URL(), func(*queue.Options) {})
	same(t, "before the first look", e.KnownIncarnation(0), "")
	read := func() string {
		t.Helper()
		run := runsOf(t, e)[0]
		same(t, "known", e.KnownIncarnation(0), run)
		return run
	}
	first := read()
	same(t, "read again", read(), first)
	if len(first) < 41+11 {
		t.Errorf("a run of %d bytes: %q", len(first), first)
	}
	if err := e.Redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	flushed := read()
	if flushed == first {
		t.Error("FLUSHALL passed unseen")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	restarted := read()
	if restarted == flushed {
		t.Error("a restart passed unseen")
	}
	if err := e.Redis.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	blind := read()
	if !strings.HasPrefix(blind, "unknown.") || read() != blind {
		t.Errorf("without INFO: %q", blind)
	}
	mine := queuetest.Embedded(t, func(o *queue.Options) { o.Embedded = true })
	if ids, err := mine.Incarnations(t.Context()); err != nil || ids[0] != mine.Options.Nonce ||
		mine.KnownIncarnation(0) != ids[0] {
		t.Errorf("embedded: %q, %v", ids, err)
	}
}

// A server that was a replica for a while is the same process with other data. While it is a replica it has no
// incarnation.
func TestRunIDOfAMasterTwice(t *testing.T) {
	t.Attr("proves", "F24")
	t.Parallel()
	server, other := testkit.NewRedis(t), testkit.NewRedis(t)
	e := connected(t, server.URL(), func(o *queue.Options) { o.Journal = true })
	first := runsOf(t, e)
	host, port, _ := strings.Cut(other.Addr(), ":")
	if err := e.Redis.SlaveOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	runs, err := e.Incarnations(t.Context())
	if runs[0] != "" || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("a replica says %q, %v", runs, err)
	}
	if err := e.Redis.SlaveOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	second := runsOf(t, e)
	if second[0] == first[0] {
		t.Errorf("the same run in both lives: %q", first)
	}
}

// After a change of servers, writes may still reach the old server. For a while KnownIncarnation is therefore the
// previous incarnation.
func TestKnownRunSettles(t *testing.T) {
	t.Parallel()
	e := queuetest.Embedded(t, func(*queue.Options) {})
	e.SetSettling(time.Hour)
	first := runsOf(t, e)[0]
	same(t, "at first", e.KnownIncarnation(0), "")
	e.SetSettling(0)
	same(t, "after the hour", e.KnownIncarnation(0), first)
	e.Redis.Del(t.Context(), queue.Key(0, "epoch"))
	second := runsOf(t, e)[0]
	e.SetSettling(time.Hour)
	e.Redis.Del(t.Context(), queue.Key(0, "epoch"))
	third := runsOf(t, e)[0]
	if first == second || second == third {
		t.Fatalf("one run: %q, %q, %q", first, second, third)
	}
	same(t, "in the hour", e.KnownIncarnation(0), first)
	e.SetSettling(0)
	same(t, "after it", e.KnownIncarnation(0), third)
}

// In a cluster each partition has the incarnation of the server that serves its slot. A server that is flushed, or
// is away, changes the incarnations of its own partitions only.
func TestRunIDsOfACluster(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	c := testkit.NewMasters(t, 3)
	e := connected(t, c.URL(), func(o *queue.Options) { o.Partitions = 6 })
	first := runsOf(t, e)
	same(t, "read again", strings.Join(runsOf(t, e), " "), strings.Join(first, " "))
	same(t, "while the last one may answer", e.KnownIncarnation(0), "")
	e.SetSettling(0)
	same(t, "later", e.KnownIncarnation(0), first[0])
	away := c.Master(queue.Key(4, "queue"))
	its := map[int]bool{}
	served := func(p int) bool { return its[p] }
	processes := map[*testkit.Redis]string{}
	for p, run := range first {
		process, _, _ := strings.Cut(run, ".")
		node := c.Master(queue.Key(p, "queue"))
		if before := processes[node]; before != "" && before != process {
			t.Errorf("one server is %s and %s", before, process)
		}
		processes[node] = process
		its[p] = node == away
		if slices.Contains(first[:p], run) {
			t.Errorf("partition %d has the run of another one", p)
		}
	}
	if len(processes) < 2 {
		t.Fatalf("%d servers have six partitions", len(processes))
	}
	changed := func(what string, now []string, want func(p int) bool) {
		t.Helper()
		for p := range now {
			if (now[p] != first[p]) != want(p) {
				t.Errorf("%s: partition %d has %q, before %q", what, p, now[p], first[p])
			}
		}
	}
	flush(t, away)
	flushed := runsOf(t, e)
	changed("flushed", flushed, served)

	if err := away.Kill(); err != nil {
		t.Fatal(err)
	}
	gone, err := e.Incarnations(t.Context())
	if !errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous) {
		t.Errorf("a server that is away: %v", err)
	}
	for p, run := range gone {
		if served(p) && run != "" || !served(p) && run != flushed[p] {
			t.Errorf("away: partition %d has %q, before %q", p, run, flushed[p])
		}
	}
	same(t, "known of it", e.KnownIncarnation(4), flushed[4])
	if err := away.Restart(); err != nil {
		t.Fatal(err)
	}
	c.Settled(t)
	changed("restarted", runsOf(t, e), served)
}

func flush(t *testing.T, r *testkit.Redis) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Addr()})
	defer func() { _ = c.Close() }()
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		other := e.Process("other")
		ask := func(q *queue.Queue, want bool) {
			t.Helper()
			got, err := q.Lease(t.Context(), "sweep", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "lease", got, want)
		}
		ask(e.Queue, true)
		ask(e.Queue, true)
		ask(other, false)
		if ttl := e.Redis.PTTL(t.Context(), "{tierq}:lease:sweep").Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("held for %s", ttl)
		}
		e.Redis.Del(t.Context(), "{tierq}:lease:sweep")
		ask(other, true)
		ask(e.Queue, false)
	})
}
