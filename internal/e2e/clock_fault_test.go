package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/testkit"
)

// steppedRedis starts a redis-server whose clock the test sets: step sets its offset from the true time, in
// seconds.
func steppedRedis(t *testing.T) (r *testkit.Redis, step func(offset string) error) {
	t.Helper()
	var library string
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1",
		"/usr/local/lib/faketime/libfaketimeMT.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			library = found[0]
		}
	}
	if library == "" {
		t.Fatal("libfaketime is missing; type: apt-get install -y --no-install-recommends libfaketime")
	}
	file := filepath.Join(t.TempDir(), "offset")
	step = func(offset string) error { return os.WriteFile(file, []byte(offset+"\n"), 0o600) }
	if err := step("+0"); err != nil {
		t.Fatal(err)
	}
	// The server uses libc's malloc: jemalloc asks for the time before the library that fakes it is ready.
	return testkit.NewRedisUnder(t,
		[]string{"env", "LD_PRELOAD=" + library + " libc.so.6", "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1"}), step
}

// Redis' clock jumps forward and back. No job is lost or runs twice, arrivals never go backwards, and jobs run in
// their order. Heartbeats come before the watch: it takes back only a job that has exceeded its maximum time by
// the new clock, for one retry. Jobs that a jump back delays run when the clock has caught up.
func TestRedisClockJumps(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	for _, tc := range []struct {
		jump    string
		offset  time.Duration
		retries int // the most of the long job, whose maximum time is 50 s
	}{
		{"+10", 10 * time.Second, 0},
		{"+3600", time.Hour, 1},
	} {
		t.Run(tc.jump+" and back", func(t *testing.T) {
			t.Parallel()
			r, step := steppedRedis(t)
			c := clusterOn(t, r, databasetest.Migrated(t))
			c.known = ", started " // a job that ran over the jump back ended before it began
			s := c.start("TIERQ_WORKERS=2")
			l := c.underLoad(s, 2, 0)
			long := s.submit("paid", counting(l.file, 9000)) // the other slot runs one job after the other
			s.await(long, "PROCESSING", 5*time.Second)
			if tc.retries > 0 {
				l.again = long
			}
			l.also = append(l.also, long)
			before := c.rdb.Time(t.Context()).Val()
			ordered := []string{s.submit("paid", counting(l.file, 0))}
			var delayed string
			l.suffer(func() error { return step(tc.jump) }, func() error {
				ordered = append(ordered, s.submit("paid", counting(l.file, 0)))
				delayed = s.submit("paid", strings.Replace(counting(l.file, 0), "{", `{"delaySeconds":1,`, 1))
				t.Logf("evidence: Redis' clock moved by %s", c.rdb.Time(t.Context()).Val().Sub(before).Round(time.Second))
				return step("+0")
			}, 6*time.Second)
			for range 3 {
				ordered = append(ordered, s.submit("paid", counting(l.file, 0)))
			}
			l.also = append(l.also, ordered...)
			if l.h.refused > 0 || len(l.h.unknown) > 0 {
				t.Errorf("%d refused, %d unknown", l.h.refused, len(l.h.unknown))
			}
			if p := s.await(long, "COMPLETED", 20*time.Second); p.RetryCount > tc.retries {
				t.Errorf("retryCount %d", p.RetryCount)
			}
			last := time.Time{}
			for _, id := range ordered {
				p := s.await(id, "COMPLETED", 5*time.Second)
				if p.ArrivedAt.Before(last) {
					t.Errorf("%s arrived at %s, after one of %s", id, p.ArrivedAt, last)
				}
				last = p.ArrivedAt
			}
			if p := s.poll(delayed); p.Status != "SCHEDULED" {
				t.Errorf("what the jump back delays is %s", p.Status)
			}
			if err := step(tc.jump); err != nil {
				t.Fatal(err)
			}
			s.await(delayed, "COMPLETED", 10*time.Second)
			l.also = append(l.also, delayed)
			l.end()
			c.ranInOrder(l.file, long)
		})
	}
}

// ranInOrder compares the order in which UNPAID jobs began, while a long job left them one slot, with the order of
// their arrivals.
func (c *cluster) ranInOrder(file, long string) {
	c.t.Helper()
	rows, err := c.db.Query(`SELECT job_id, arrived_at FROM job_results WHERE tier = 'UNPAID'`)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	arrived := map[string]string{}
	for rows.Next() {
		var id, at string
		if err := rows.Scan(&id, &at); err != nil {
			c.t.Fatal(err)
		}
		arrived[id] = at
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	_, during, _ := strings.Cut(string(text), "\n"+long)
	last := strings.LastIndex(during, "\n"+long)
	if last < 0 {
		c.t.Fatalf("the long job's marks are missing")
	}
	var order []string // arrivals, in the order in which the jobs began
	for mark := range strings.Lines(during[:last]) {
		if id, what, _ := strings.Cut(strings.TrimSpace(mark), " "); strings.HasSuffix(what, " start") && arrived[id] != "" {
			order = append(order, arrived[id])
		}
	}
	c.t.Logf("evidence: %d jobs began one after the other", len(order))
	if len(order) < 50 || !slices.IsSorted(order) {
		c.t.Errorf("%d jobs began, in the order of their arrivals: %v", len(order), slices.IsSorted(order))
	}
}
