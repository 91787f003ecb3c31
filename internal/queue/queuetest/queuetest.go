// Package queuetest has the helpers that tests of the queue share: a queue on each backend, an audit after every
// test, and a model to compare with.
package queuetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// Env is a queue on one backend, empty at the start and audited at the end.
type Env struct {
	*queue.Queue
	*queue.View
	Clients queue.Clients
	Redis   redis.UniversalClient // for reading and ageing data
	Plans   *job.PlanBook
	Options queue.Options
	Backend string

	mini    *miniredis.Miniredis
	number  atomic.Int64 // of claims
	unsound bool         // the test broke the data on purpose
}

// Each runs a test on all backends: an embedded server, a real server, and a cluster of three servers with six
// partitions.
func Each(t *testing.T, test func(t *testing.T, e *Env)) {
	t.Helper()
	each(t, func(*queue.Options) {}, 6, test)
}

// EachWith is Each with other options. All backends have one partition unless change sets another number.
func EachWith(t *testing.T, change func(*queue.Options), test func(t *testing.T, e *Env)) {
	t.Helper()
	each(t, change, 1, test)
}

func each(t *testing.T, change func(*queue.Options), inCluster int, test func(t *testing.T, e *Env)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, Embedded(t, change))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Open(t, Connect(t, testkit.SharedRedisDB(t)), change))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		e := Cluster(t, func(o *queue.Options) {
			o.Partitions = inCluster
			change(o)
		})
		test(t, e)
	})
}

// Cluster returns a queue on a cluster that no other test uses at the same time.
func Cluster(t *testing.T, change func(*queue.Options)) *Env {
	t.Helper()
	clients, err := queue.Connect(testkit.SharedCluster(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	e := Open(t, clients, change)
	e.Backend = "cluster"
	return e
}

// Embedded returns a queue on an in-memory server.
func Embedded(t *testing.T, change func(*queue.Options)) *Env {
	t.Helper()
	m := miniredis.NewMiniRedis()
	t.Cleanup(m.Close)
	e := Open(t, patient(queue.ConnectInMemory(m.Dial)), change)
	e.Backend, e.mini = "miniredis", m
	return e
}

// Open makes a queue with the default plans over clients of a real server. At the end of the test the queue is
// audited and the clients are closed.
func Open(t *testing.T, c queue.Clients, change func(*queue.Options)) *Env {
	t.Helper()
	o := queue.Options{
		Nonce: "test-" + random(4), Partitions: 1, PriorityBase: 10_000_000_000_000, Capacity: 10_000,
		ScheduledLimit:    100_000,
		HeartbeatInterval: 500 * time.Millisecond, Retention: 24 * time.Hour, FailedRetention: time.Hour,
		KeepEnded: 1_000_000,
	}
	change(&o)
	e := &Env{Clients: c, Redis: c.Main, Plans: &job.PlanBook{}, Options: o, Backend: "redis"}
	e.Queue = queue.New(c, e.Plans, o)
	e.View = e.Queue.View()
	if err := e.LoadPlans(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.audit(t)
		_ = c.Close()
	})
	return e
}

// Process returns the queue of another process on the same store, with a nonce of its own; serves are its queues, if
// they are others than the first process has.
func (e *Env) Process(nonce string, serves ...string) *queue.Queue {
	o := e.Options
	o.Nonce = nonce
	if len(serves) > 0 {
		o.Serves = serves
	}
	return queue.New(e.Clients, e.Plans, o)
}

// Connect opens clients of one server, with long time limits.
func Connect(t *testing.T, url string) queue.Clients {
	t.Helper()
	clients, err := queue.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	return patient(clients)
}

// patient sets the clients' time limit for a reply to a minute. On a busy machine the in-memory server needs
// seconds for a script with thousands of keys, and the heartbeat client of production gives up after 400 ms.
func patient(c queue.Clients) queue.Clients {
	for _, client := range []*redis.UniversalClient{&c.Main, &c.Read, &c.Worker, &c.Bell, &c.Beat, &c.Rate} {
		*client = (*client).(*redis.Client).WithTimeout(time.Minute)
	}
	return c
}

func (e *Env) audit(t *testing.T) {
	t.Helper()
	if e.unsound {
		return
	}
	for _, wrong := range e.Audit(t) {
		t.Error("audit: " + wrong)
	}
}

// Broken is for tests that break the data on purpose: the audit must report each of these faults now, and does not
// run again at the end of the test.
func (e *Env) Broken(t testing.TB, says ...string) {
	t.Helper()
	e.unsound = true
	all := strings.Join(e.Audit(t), "\n")
	for _, want := range says {
		if !strings.Contains(all, want) {
			t.Errorf("the audit does not say %q, but:\n%s", want, all)
		}
	}
}

// Audit returns the present faults of all partitions.
func (e *Env) Audit(t testing.TB) []string {
	t.Helper()
	var wrong []string
	for p := range e.Options.Partitions {
		s, err := Read(context.Background(), e.Redis, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range s.Audit() {
			wrong = append(wrong, fmt.Sprintf("partition %d: %s", p, w))
		}
	}
	return wrong
}

// Snapshot reads partition 0.
func (e *Env) Snapshot(t testing.TB) Snapshot {
	t.Helper()
	s, err := Read(t.Context(), e.Redis, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Elapse makes all times to live run out sooner by d: the embedded server fast-forwards, on a real server each
// time to live is shortened.
func (e *Env) Elapse(t testing.TB, d time.Duration) {
	t.Helper()
	if e.mini != nil {
		e.mini.FastForward(d)
		return
	}
	keys := e.AllKeys(t, "{tierq*")
	for _, key := range keys {
		left, err := e.Redis.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if left > 0 {
			e.Redis.PExpire(t.Context(), key, max(left-d, 0))
		}
	}
}

// Servers calls do for every server, one after the other.
func (e *Env) Servers(t testing.TB, do func(ctx context.Context, server *redis.Client) error) {
	t.Helper()
	var err error
	switch c := e.Redis.(type) {
	case *redis.ClusterClient:
		var one sync.Mutex
		err = c.ForEachMaster(t.Context(), func(ctx context.Context, server *redis.Client) error {
			one.Lock()
			defer one.Unlock()
			return do(ctx, server)
		})
	case *redis.Client:
		err = do(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// AllKeys returns the keys of all servers that match the pattern.
func (e *Env) AllKeys(t testing.TB, pattern string) []string {
	t.Helper()
	var all []string
	e.Servers(t, func(ctx context.Context, server *redis.Client) error {
		keys, err := server.Keys(ctx, pattern).Result()
		all = append(all, keys...)
		return err
	})
	return all
}

// Flush removes all data from all servers, which then accept jobs: there is no SQL that would have places.
func (e *Env) Flush(t testing.TB) {
	t.Helper()
	e.Lose(t)
	for p := range e.Options.Partitions {
		e.whole(t, p)
	}
}

// Empty is Flush for partition 0 alone.
func (e *Env) Empty(t testing.TB) {
	t.Helper()
	if keys := e.AllKeys(t, "{tierq:0}*"); len(keys) > 0 {
		e.Redis.Del(t.Context(), keys...)
	}
	e.whole(t, 0)
}

// whole says in a partition that it has all reserved places.
func (e *Env) whole(t testing.TB, partition int) {
	t.Helper()
	if err := e.Redis.HSet(t.Context(), queue.Key(partition, "counters"), "-", "1").Err(); err != nil {
		t.Fatal(err)
	}
}

// Lose removes all data from all servers. They accept nothing until a process has read SQL.
func (e *Env) Lose(t testing.TB) {
	t.Helper()
	e.Servers(t, func(ctx context.Context, server *redis.Client) error { return server.FlushDB(ctx).Err() })
}

var minted atomic.Uint64

// NewID makes an id for a partition; a later id sorts after an earlier one. No other id of NewID is in its slice.
func NewID(partition int) job.ID {
	return numberedID(minted.Add(1), partition)
}

func numberedID(n uint64, partition int) job.ID {
	return job.ID(fmt.Sprintf("%08x-%02x00-7000-8000-%010x%02x", uint32(n>>8)+0x019de340, uint8(n), n, partition))
}

// MateOf makes an id of the same slice and partition.
func MateOf(id job.ID) job.ID {
	n := minted.Add(1)
	return job.ID(fmt.Sprintf("%s%02x-7000-8000-%010x%02x", SliceOf(string(id)), 1+n%255, n, id.Partition()))
}

// Job returns a submission of a tier, ready to send.
func Job(t job.Tier) job.Submission {
	retries := map[job.Tier]int{job.Paid: 5, job.Unpaid: 2, job.Public: 1}[t]
	return job.Submission{ID: NewID(0), Tier: t, Type: "SIMULATION", Payload: []byte(`{"steps":[]}`), MaxRetries: retries,
		TraceID: "trace-" + random(4)}
}

func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
