package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

func six(o *queue.Options) { o.Partitions = 6 }

// jobOf returns a submission for a partition.
func jobOf(partition int) job.Submission {
	s := queuetest.Job(job.Paid)
	s.ID = queuetest.NewID(partition)
	return s
}

func submitTo(t *testing.T, q *queue.Queue, partition int) (job.ID, error) {
	t.Helper()
	s := jobOf(partition)
	replies, err := q.Submit(t.Context(), partition, []job.Submission{s})
	if err == nil && replies[0].Word != job.OK {
		err = errors.New(string(replies[0].Word))
	}
	return s.ID, err
}

// A call whose reply is lost is sent once and reported as ambiguous, also by a cluster's client, which on its own
// would resend the call and report the fate of the second copy.
func TestClusterSendsOnce(t *testing.T) {
	t.Attr("proves", "F27")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := testkit.SharedCluster(t)
		var addresses []string
		proxies := map[string]*testkit.Proxy{}
		for _, n := range c.Nodes() {
			addresses = append(addresses, n.Addr())
			proxies[n.Addr()] = testkit.NewProxy(t, n.Addr())
		}
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, proxies[addr].Addr())
		}
		e := queuetest.Open(t, queue.ConnectWith(redis.UniversalOptions{Addrs: addresses, IsClusterMode: true, Dialer: dial}),
			six)
		master := c.Master(queue.Key(0, "queue"))
		proxy := proxies[master.Addr()]
		if _, err := submitTo(t, e.Queue, 0); err != nil {
			t.Fatal(err)
		}
		lost := func(script string, call func() error) {
			t.Helper()
			before := len(proxy.Dropped())
			proxy.DropReply(testkit.IsScript(lua.Script(script))) // drops one reply: a second copy would get its reply
			if err := call(); !errors.Is(err, job.ErrAmbiguous) {
				t.Errorf("%s, its reply lost: %v", script, err)
			}
			if got := len(proxy.Dropped()) - before; got != 1 {
				t.Errorf("%s: %d replies were lost", script, got)
			}
		}
		lost("submit", func() error { _, err := submitTo(t, e.Queue, 0); return err })
		lost("claim", func() error { _, err := e.Claim(t.Context(), 0, e.NextClaim(1)); return err })
	})
}

// While a slot moves to another server, every call to its partition is refused as unavailable; afterwards each job
// is in exactly one place.
func TestClusterSlotOnItsWay(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := testkit.SharedCluster(t)
		clients, err := queue.Connect(c.URL())
		if err != nil {
			t.Fatal(err)
		}
		e := queuetest.Open(t, clients, six)
		ids := e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Public))
		running := e.Take(t, 1)[0]
		slot := testkit.Slot(queue.Key(0, "queue"))
		from := c.Master(queue.Key(0, "queue"))
		to := c.Nodes()[(slices.Index(c.Nodes(), from)+1)%3]
		refused := func(when string) {
			t.Helper()
			before := e.Audit(t)
			for what, call := range map[string]func() error{
				"submit": func() error { _, err := submitTo(t, e.Queue, 0); return err },
				"claim":  func() error { _, err := e.Claim(t.Context(), 0, e.NextClaim(1)); return err },
				"heartbeat": func() error {
					_, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(running, time.Minute)})
					return err
				},
				"complete": func() error {
					_, err := e.Complete(t.Context(), 0, []job.Completion{{LeaseRef: running.Ref()}})
					return err
				},
				"reclaim": func() error { _, err := e.Reclaim(t.Context(), 0, job.Crashed, 0); return err },
				"promote": func() error { _, err := e.Promote(t.Context(), 0); return err },
				"expire":  func() error { _, err := e.Queue.Expire(t.Context(), 0); return err },
				"outbox":  func() error { _, err := e.TakeOutbox(t.Context(), 0, 10); return err },
				"rate": func() error {
					_, err := e.Rates(t.Context(), 0, []job.RateAsk{{Bucket: "x", Rate: 1, Burst: 2, N: 1}})
					return err
				},
			} {
				if err := call(); !errors.Is(err, job.ErrUnavailable) {
					t.Errorf("%s, %s: %v", when, what, err)
				}
			}
			if after := e.Audit(t); len(queuetest.Diff(before, after)) > 0 && len(before) == 0 {
				t.Errorf("%s: %q", when, after)
			}
			if _, err := submitTo(t, e.Queue, other(c, e, from)); err != nil {
				t.Errorf("%s, another partition: %v", when, err)
			}
			for _, id := range ids {
				if _, err := e.Find(t.Context(), id); err != nil {
					t.Errorf("%s: %s: %v", when, id, err)
				}
			}
		}
		m := c.StartMove(t, slot, to)
		refused("before the first key")
		for m.Step(t, 3) {
			refused("with keys on both")
		}
		refused("after the last key")
		m.Finish(t)
		if _, err := submitTo(t, e.Queue, 0); err != nil {
			t.Errorf("the slot is there: %v", err)
		}
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(running, time.Minute)})
		words(t, got, err, job.OK)
		e.Finish(t, running)
		same(t, "master", c.Master(queue.Key(0, "queue")), to)
	})
}

// other returns a partition that a server does not have.
func other(c *testkit.Cluster, e *queuetest.Env, than *testkit.Redis) int {
	for p := range e.Options.Partitions {
		if c.Master(queue.Key(p, "queue")) != than {
			return p
		}
	}
	return 0
}

// Every script call names two keys, of which one never exists. A server therefore refuses every call while the
// slot moves.
func TestScriptsNameAKeyThatNeverIs(t *testing.T) {
	t.Parallel()
	e := queuetest.Embedded(t, six)
	for name, keys := range e.Keys(3) {
		if len(keys) < 2 || !slices.Contains(keys, queue.Key(3, "job")) && !slices.Contains(keys, queue.Key(3, "ended")) {
			t.Errorf("%s: %v", name, keys)
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, "{tierq:3}:") {
				t.Errorf("%s: %s", name, key)
			}
		}
	}
}

// The audit's walk meets the jobs of every server, each of them once.
func TestClusterScan(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		e := queuetest.Cluster(t, six)
		const each = 150 // more than a step
		for p := range 6 {
			batch := make([]job.Submission, each)
			for i := range batch {
				batch[i] = jobOf(p)
			}
			for part := range slices.Chunk(batch, job.MaxBatch) {
				if _, err := e.Submit(t.Context(), p, part); err != nil {
					t.Fatal(err)
				}
			}
		}
		met, steps := map[job.ID]int{}, 0
		for at := ""; at != "" || steps == 0; steps++ {
			s, err := e.Scan(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Found) > 0 {
				t.Errorf("at %q: %v", at, s.Found)
			}
			for _, j := range s.Suspects {
				met[j.ID]++
			}
			at = s.Next
		}
		same(t, "jobs met", len(met), 6*each)
		// The walk skips a server that left, together with its cursor.
		s, err := e.Scan(t.Context(), "keys 12345 0.0.0.0:1")
		if err != nil || len(s.Suspects) == 0 {
			t.Errorf("after a server that left: %v, %v", s, err)
		}
		s, err = e.Scan(t.Context(), "keys 12345 9.9.9.9:1")
		if err != nil || len(s.Suspects) != 0 || !strings.HasPrefix(s.Next, "set ") {
			t.Errorf("after the last server: %v, %v", s, err)
		}
	})
}

// ReadDurability reports the weakest of all servers: a single server that evicts can lose jobs.
func TestClusterDurability(t *testing.T) {
	t.Attr("proves", "F23")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		e := queuetest.Cluster(t, six)
		var addresses []string // of the three servers, which Servers visits in any order
		e.Servers(t, func(_ context.Context, server *redis.Client) error {
			addresses = append(addresses, server.Options().Addr)
			return nil
		})
		slices.Sort(addresses)
		set := func(i int, name, value string) {
			e.Servers(t, func(ctx context.Context, server *redis.Client) error {
				if server.Options().Addr != addresses[i] {
					return nil
				}
				return server.ConfigSet(ctx, name, value).Err()
			})
		}
		read := func() queue.Durability {
			d, err := e.ReadDurability(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d.Version = ""
			return d
		}
		good := queue.Durability{Known: true, AOF: true, Fsync: "no", Eviction: "noeviction"}
		same(t, "of three alike", read(), good)
		for i := range 3 {
			set(i, "maxmemory-policy", "allkeys-lru")
			d := read()
			same(t, "policy of the worst", d.Eviction, "allkeys-lru")
			if d.Server == "" {
				t.Error("which of them?")
			}
			set(i, "maxmemory-policy", "noeviction")
			set(i, "appendonly", "no")
			same(t, "append-only file", read().AOF, false)
			set(i, "appendonly", "yes")
		}
		same(t, "of three alike", read(), good)
		f, err := e.ReadFacts(t.Context())
		if err != nil || f.Role != "master" || f.UsedMemory == 0 || f.Latency <= 0 || f.Version == "" {
			t.Errorf("%+v, %v", f, err)
		}
	})
}

// Each server has its own clock: a call is stamped by the clock of the server that will check the stamp.
func TestClusterClocks(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		e := queuetest.Cluster(t, six)
		now, err := e.ReadClock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e.SetClockOf(2, now.Add(-time.Hour))
		for p := range 6 {
			_, err := submitTo(t, e.Queue, p)
			if (p == 2) != (err != nil && err.Error() == string(job.Late)) {
				t.Errorf("partition %d: %v", p, err)
			}
		}
		if _, err := submitTo(t, e.Queue, 2); err != nil { // after the LATE the queue has read the clock again
			t.Error(err)
		}
	})
}

// The rights that docs/SECURITY.md lists, with its additions for a cluster, are sufficient, also while a slot
// moves.
func TestClusterLeastRights(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile("../../docs/SECURITY.md")
		if err != nil {
			t.Fatal(err)
		}
		rules := []any{"ACL", "SETUSER", "tierq", "reset"}
		for line := range strings.Lines(string(page)) {
			if rest, ok := strings.CutPrefix(line, "user tierq on >SECRET "); ok {
				for _, rule := range strings.Fields(rest) {
					rules = append(rules, rule)
				}
			}
		}
		const more = "+cluster|slots +asking"
		if len(rules) < 20 || !strings.Contains(string(page), "`"+more+"`") {
			t.Fatalf("the page has not the rights, or not those of a cluster: %v", rules)
		}
		for _, rule := range strings.Fields(more + " on >SECRET") {
			rules = append(rules, rule)
		}
		c := testkit.SharedCluster(t)
		all, err := queue.Connect(c.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = all.Close() })
		servers := func(do func(ctx context.Context, server *redis.Client) error) {
			t.Helper()
			if err := all.Main.(*redis.ClusterClient).ForEachMaster(context.Background(), do); err != nil {
				t.Error(err)
			}
		}
		servers(func(ctx context.Context, server *redis.Client) error { return server.Do(ctx, rules...).Err() })
		t.Cleanup(func() {
			servers(func(ctx context.Context, server *redis.Client) error {
				return server.Do(ctx, "ACL", "DELUSER", "tierq").Err()
			})
		})
		clients, err := queue.Connect(strings.Replace(c.URL(), "redis://", "redis://tierq:SECRET@", 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = clients.Close() })
		whole, err := queue.Connect(c.URL())
		if err != nil {
			t.Fatal(err)
		}
		e := queuetest.Open(t, whole, six) // e reads with all rights; the queue q below has few
		q := queue.New(clients, e.Plans, e.Options)
		if err := q.CheckSetup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := q.ReadClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, err := q.View().ReadDurability(t.Context()); err != nil || d.Eviction != "noeviction" || !d.AOF {
			t.Errorf("%+v, %v", d, err)
		}
		ear(t, q)
		var last job.ID
		for p := range 6 {
			if last, err = submitTo(t, q, p); err != nil {
				t.Errorf("partition %d: %v", p, err)
			}
		}
		if _, err := q.Scan(t.Context(), ""); err != nil {
			t.Error(err)
		}
		key := queue.Key(5, "queue")
		to := c.Nodes()[(slices.Index(c.Nodes(), c.Master(key))+1)%3]
		m := c.StartMove(t, testkit.Slot(key), to)
		for m.Step(t, 10) {
		}
		if _, err := q.View().Find(t.Context(), last); err != nil {
			t.Errorf("of a slot on its way: %v", err)
		}
		m.Finish(t)
		if _, err := q.View().Find(t.Context(), last); err != nil {
			t.Errorf("of a slot that moved: %v", err)
		}
	})
}

// lines collects the lines of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A server that is away silences only its own partitions. When it is back, the listener's up is called again,
// because events may be missing.
func TestClusterListen(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := testkit.NewMasters(t, 3)
		clients, err := queue.Connect(c.URL())
		if err != nil {
			t.Fatal(err)
		}
		log := &lines{}
		e := queuetest.Open(t, clients,
			func(o *queue.Options) { o.Partitions, o.Log = 6, slog.New(slog.NewTextHandler(log, nil)) })
		ctx, cancel := context.WithCancel(t.Context())
		heard, ups, done := make(chan job.ID, 1000), make(chan struct{}, 1000), make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				_ = e.Listen(ctx, func(events []job.Event) {
					for _, ev := range events {
						heard <- ev.ID
					}
				}, func() { ups <- struct{}{} })
			}
		}()
		defer func() { cancel(); <-done }()
		told := func(partitions ...int) {
			t.Helper()
			for _, p := range partitions {
				testkit.Eventually(t, 30*time.Second, fmt.Sprintf("an event of partition %d", p), func() (bool, string) {
					id, err := submitTo(t, e.Queue, p)
					if err != nil {
						return false, err.Error()
					}
					for {
						select {
						case got := <-heard:
							if got == id {
								return true, ""
							}
						case <-time.After(500 * time.Millisecond):
							return false, "nothing heard"
						}
					}
				})
			}
		}
		<-ups
		told(0, 1, 2, 3, 4, 5)
		away := c.Master(queue.Key(0, "queue"))
		if err := away.Kill(); err != nil {
			t.Fatal(err)
		}
		told(other(c, e, nil))
		testkit.Eventually(t, 30*time.Second, "the listener misses it", func() (bool, string) {
			told(other(c, e, nil)) // the other partitions go on
			return strings.Contains(log.String(), "their server is away"), log.String()
		})
		for len(ups) > 0 {
			<-ups
		}
		if err := away.Restart(); err != nil {
			t.Fatal(err)
		}
		c.Settled(t)
		select {
		case <-ups:
		case <-time.After(30 * time.Second):
			t.Error("nobody said that the server is back")
		}
		told(0)
	})
}
