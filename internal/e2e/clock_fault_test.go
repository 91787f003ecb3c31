package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// steppedRedis is a redis-server whose clock the test moves: by what it returns, in seconds, against the true one.
func steppedRedis(t *testing.T) (r *testkit.Redis, step func(offset string) error) {
	t.Helper()
	var library string
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1"} {
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
	// With libc's malloc: jemalloc asks for the time while the library that fakes it is not ready yet.
	return testkit.NewRedisUnder(t, []string{"env", "LD_PRELOAD=" + library + " libc.so.6", "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1"}), step
}

// Redis' clock jumps, forward and back. Nothing is lost or doubled, arrivals never go backwards, heartbeats outrun the watch: only what runs for
// longer than its maximum by the new clock is taken back, at the price of one retry.
func TestRedisClockJumps_F34(t *testing.T) {
	for _, tc := range []struct {
		jump    string
		offset  time.Duration
		retries int // at most, of the long job: its maximum is 50 s
	}{
		{"+10", 10 * time.Second, 0},
		{"+3600", time.Hour, 1},
	} {
		t.Run(tc.jump+" and back", func(t *testing.T) {
			t.Parallel()
			r, step := steppedRedis(t)
			c := clusterOn(t, r, testkit.SharedMariaDB(t))
			c.known = ", started " // what ran over the jump back ended before it began
			s := c.start()
			l := c.underLoad(s, 3, 0)
			long := s.submit("paid", counting(l.file, 7000))
			s.await(long, "PROCESSING", 5*time.Second)
			if tc.retries > 0 {
				l.repeats = "the jump"
			}
			l.also = append(l.also, long)
			before := c.rdb.Time(t.Context()).Val()
			ordered := []string{s.submit("paid", counting(l.file, 0))}
			l.suffer(func() error { return step(tc.jump) }, func() error {
				ordered = append(ordered, s.submit("paid", counting(l.file, 0)))
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
			l.end()
		})
	}
}
