package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

// The line between the server and its Redis is bad: each direction gets half of a row's delay. Afterwards no
// goroutine and no connection is left over.
func TestRedisLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		w    testkit.Weather
		out  time.Duration
	}{
		{"F28 200 ms and jitter: nobody is taken for dead",
			testkit.Weather{Latency: 75 * time.Millisecond, Jitter: 50 * time.Millisecond}, 3 * time.Second},
		{"F28 1500 ms and jitter", testkit.Weather{Latency: 675 * time.Millisecond, Jitter: 150 * time.Millisecond},
			3 * time.Second},
		{"F29 20 KB a second", testkit.Weather{BytesPerSecond: 20_000}, 3 * time.Second},
		{"F30 swallows everything", testkit.Weather{Stalled: true}, 3500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			proxy := testkit.NewTCPProxy(t, c.redis.Addr())
			l := c.underLoad(c.start("REDIS_URL=redis://"+proxy.Addr()), 4, int(tc.out.Milliseconds())+3000)
			l.fenced = !strings.Contains(tc.name, "nobody")
			before := held(t, l.s)
			l.suffer(func() error { proxy.SetWeather(tc.w); return nil },
				func() error { proxy.SetWeather(testkit.Weather{}); return nil }, tc.out)
			t.Logf("evidence: %d pieces were held back", proxy.Suffered())
			if proxy.Suffered() < 5 {
				t.Error("the fault did not land")
			}
			l.end()
			l.s.holds(before)
		})
	}
}

// Answers of Redis break off in the middle, and the connection is reset, for every script that a running server
// sends. Redis has carried out all of these calls.
func TestReplyBreaksOff(t *testing.T) {
	t.Attr("proves", "F31")
	t.Parallel()
	c := newCluster(t)
	proxy := testkit.NewProxy(t, c.redis.Addr())
	l := c.underLoad(c.start("REDIS_URL="+proxy.URL()), 4, 5000)
	before := held(t, l.s)
	for range 3 {
		for _, script := range []string{"submit", "claim", "heartbeat", "complete", "acknowledge"} {
			proxy.HalveReply(testkit.IsScript(lua.Script(script)))
		}
		testkit.Eventually(t, 10*time.Second, "all are cut",
			func() (bool, string) { return proxy.Armed() == 0, fmt.Sprint(proxy.Armed()) })
	}
	l.flows("after the fault")
	t.Logf("evidence: %d answers were carried out and cut in half", len(proxy.Dropped()))
	l.end()
	l.s.holds(before)
}

// The line to SQL swallows everything. No client gets an error, and no outcome is lost.
func TestSQLLine(t *testing.T) {
	t.Attr("proves", "F30")
	t.Parallel()
	c := newCluster(t)
	cfg, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = proxy.Addr()
	l := c.underLoad(c.start("MYSQL_DSN="+cfg.FormatDSN()), 4, 5000)
	before := held(t, l.s)
	l.suffer(func() error { proxy.SetWeather(testkit.Weather{Stalled: true}); return nil }, func() error {
		if a := do(t, http.MethodGet, l.s.base+"/readyz?verbose", ""); a.status != http.StatusOK ||
			!contains(a.body, "DEGRADED") {
			t.Errorf("readiness: %d %s", a.status, a.body)
		}
		proxy.SetWeather(testkit.Weather{})
		return nil
	}, 4*time.Second)
	t.Logf("evidence: %d pieces were held back", proxy.Suffered())
	if l.h.refused > 0 || len(l.h.unknown) > 0 || proxy.Suffered() == 0 {
		t.Errorf("%d refused, %d unknown: submits do not need SQL", l.h.refused, len(l.h.unknown))
	}
	l.end()
	l.s.holds(before)
}

// Half of the clients hang up before their answer, and others read slowly or not at all. The gate stays open, and
// no goroutine or connection is left over.
func TestClientsHangUp(t *testing.T) {
	t.Attr("proves", "F55")
	t.Parallel()
	heavy(t)
	c := newCluster(t)
	s := c.start()
	l := c.underLoad(s, 2, 0)
	before := held(t, s)
	var crowd sync.WaitGroup
	var hung, answered atomic.Int64
	stop := make(chan struct{})
	for range 8 {
		crowd.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				patience := 10 * time.Second
				if i%2 == 0 {
					patience = time.Duration(i%16) * 500 * time.Microsecond
				}
				if rudely(s.base, patience) == nil {
					answered.Add(1)
				} else {
					hung.Add(1)
				}
			}
		})
	}
	slow := slowReaders(t, s, 50)
	testkit.Eventually(t, 20*time.Second, "many have hung up", func() (bool, string) {
		return hung.Load() > 200 && answered.Load() > 200, fmt.Sprint(hung.Load(), answered.Load())
	})
	close(stop)
	crowd.Wait()
	for _, conn := range slow {
		_ = conn.Close()
	}
	t.Logf("evidence: %d clients hung up, %d were answered, %d did not read", hung.Load(), answered.Load(), len(slow))
	close(l.stop)
	l.h.group.Wait()
	l.h.check(t)
	if l.h.refused > 0 || len(l.h.unknown) > 0 || strings.Contains(s.Output(), "gate closed") {
		t.Errorf("%d refused, %d unknown: clients that hang up are no reason", l.h.refused, len(l.h.unknown))
	}
	c.quiet(30 * time.Second)
	s.holds(before)
}

// rudely submits a job and hangs up after patience.
func rudely(base string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/public/submit", strings.NewReader(`{}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// slowReaders send requests with large answers and read nothing.
func slowReaders(t *testing.T, s *server, n int) (conns []net.Conn) {
	t.Helper()
	u, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(conn, strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n", 100)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

// holding counts a process' goroutines and open files.
type holding struct{ goroutines, files int }

func held(t testing.TB, s *server) (h holding) {
	t.Helper()
	page := do(t, http.MethodGet, s.base+"/metrics", "")
	for l := range strings.Lines(string(page.body)) {
		_, _ = fmt.Sscanf(l, "go_goroutines %d", &h.goroutines) // only one line has this form
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid()))
	if err != nil || h.goroutines == 0 {
		t.Fatalf("%v; %d goroutines", err, h.goroutines)
	}
	h.files = len(files)
	return h
}

// holds waits until a process has at most as many goroutines and files as before. It closes the test's own
// connections to the process first.
func (s *server) holds(before holding) {
	s.t.Helper()
	client.CloseIdleConnections()
	testkit.Eventually(s.t, 10*time.Second, "goroutines and files are what they were", func() (bool, string) {
		now := held(s.t, s)
		return now.goroutines <= before.goroutines+20 && now.files <= before.files+10,
			fmt.Sprintf("%+v, before %+v", now, before)
	})
}
