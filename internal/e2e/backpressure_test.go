package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/testkit"
)

// crowd is a set of clients, on connections of their own, that submit without a pause. It records their answers.
type crowd struct {
	connections *http.Client
	group       sync.WaitGroup

	mu      sync.Mutex
	yes     []string
	unknown int
	refused map[string]int  // by error code
	took    []time.Duration // answer times of the accepted submits
	worst   time.Duration   // the slowest answer of all
	idle    time.Duration   // the slowest answer to a request that needs no work: how late the machine itself is
	odd     []string        // answers that no client should get, and refusals without a Retry-After
}

// press starts the crowd; body returns each client's own job. Closing stop ends it. A refused client submits again
// after 0.1 s, far sooner than its Retry-After.
func (s *server) press(clients int, stop <-chan struct{}, tier string, body func(client int) string) *crowd {
	r := &crowd{refused: map[string]int{}, connections: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: clients + 1},
	}}
	s.t.Cleanup(r.connections.CloseIdleConnections)
	for n := range clients {
		r.group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r.note(s.t, r.connections, s.base+"/"+tier+"/submit", body(n)) {
					<-time.After(100 * time.Millisecond)
				}
			}
		})
	}
	r.group.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			a, err := tryOn(r.connections, http.MethodGet, s.base+"/livez", "")
			r.mu.Lock()
			if r.idle = max(r.idle, a.took); err != nil {
				r.odd = append(r.odd, err.Error())
			}
			r.mu.Unlock()
		}
	})
	return r
}

func (r *crowd) note(t testing.TB, c *http.Client, url, body string) (refused bool) {
	a, err := tryOn(c, http.MethodPost, url, body)
	again, _ := strconv.Atoi(a.header.Get("Retry-After"))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.odd = append(r.odd, err.Error())
		return false
	case a.status == http.StatusAccepted:
		r.yes, r.took = append(r.yes, accepted(t, a)), append(r.took, a.took)
	case (a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests) && again >= 1 &&
		again <= 60:
		r.refused[a.code()]++
	case a.status == http.StatusGatewayTimeout && a.code() == "OUTCOME_UNKNOWN":
		r.unknown++
	default:
		r.odd = append(r.odd, fmt.Sprintf("%d, Retry-After %q: %.300s", a.status, a.header.Get("Retry-After"), a.body))
	}
	r.worst = max(r.worst, a.took)
	return a.status == http.StatusServiceUnavailable
}

// count returns the submits accepted and refused so far.
func (r *crowd) count() (yes, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.refused {
		refused += n
	}
	return len(r.yes), refused
}

// check compares the answers with the promise: an answer within 2 s, each refusal with a Retry-After, nothing
// else. If the machine is late for requests that need no work, these answers may be twice as late. The crowd must
// have ended.
func (r *crowd) check(t testing.TB) {
	t.Helper()
	slices.Sort(r.took)
	p99 := time.Duration(0)
	if n := len(r.took); n > 0 {
		p99 = r.took[n*99/100]
	}
	t.Logf("evidence: %d accepted (p99 %s), refused %v, %d unknown; the slowest answer %s, the slowest to a request "+
		"that needs nothing %s",
		len(r.yes), p99.Round(time.Millisecond), r.refused, r.unknown, r.worst.Round(time.Millisecond),
		r.idle.Round(time.Millisecond))
	if len(r.odd) > 0 {
		t.Errorf("%d odd answers, the first: %s", len(r.odd), r.odd[0])
	}
	if late := 2 * r.idle; len(r.yes) == 0 || p99 > 2*time.Second+late || r.worst > bound+time.Second+late {
		t.Errorf("%d accepted, p99 %s, the slowest answer %s", len(r.yes), p99, r.worst)
	}
}

// state holds figures that a process reports about itself.
type state struct{ goroutines, heap, submits int }

func (s *server) state() (now state) {
	s.t.Helper()
	page := do(s.t, http.MethodGet, s.base+"/metrics", "")
	for line := range strings.Lines(string(page.body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			now.goroutines = int(v)
		case "go_memstats_heap_inuse_bytes":
			now.heap = int(v)
		case `tierq_redis_op_seconds_count{op="submit"}`:
			now.submits = int(v)
		}
	}
	if now.goroutines == 0 || now.heap == 0 {
		s.t.Fatalf("no figures: %d %.300s", page.status, page.body)
	}
	return now
}

// highest reads a process' figures until stop and returns the highest of each.
func (s *server) highest(stop <-chan struct{}) (most state) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now := s.state()
		most = state{max(most.goroutines, now.goroutines), max(most.heap, now.heap), max(most.submits, now.submits)}
		select {
		case <-stop:
			return most
		case <-tick.C:
		}
	}
}

// calm waits until a process has about as few goroutines as before its crowd came.
func (s *server) calm(before state) {
	s.t.Helper()
	testkit.Eventually(s.t, 20*time.Second, "goroutines are what they were", func() (bool, string) {
		now := s.state()
		return now.goroutines <= before.goroutines+20, fmt.Sprintf("%d, before %d", now.goroutines, before.goroutines)
	})
}

// heapOf returns the largest allowed heap for this number of live bytes. cmd/tierq/garbage.go limits the garbage.
func heapOf(inUse int) int { return max(2*inUse, inUse+128<<20) }

// More submits than the server can take, with payloads of 16 KiB: the heap stays below the sum of LIMITS.md's
// table. Accepted jobs are answered soon and end. Refusals have a Retry-After. Afterwards no goroutine is left.
func TestOverload(t *testing.T) {
	t.Parallel()
	heavy(t)
	const clients, body, capacity = 200, 17 << 10, 300
	c := newCluster(t)
	s := c.start(fmt.Sprint("TIERQ_CAPACITY=", capacity), "TIERQ_WORKERS=4")
	before := s.state()
	file, pad := filepath.Join(t.TempDir(), "runs"), strings.Repeat("x", 16<<10)
	stop := make(chan struct{})
	r := s.press(clients, stop, "paid", func(n int) string {
		return fmt.Sprintf(`{"type":"CHAOS","payload":{"key":"%d","file":%q,"sleepMs":50,"pad":%q}}`, n, file, pad)
	})
	time.AfterFunc(overloadFor, func() { close(stop) })
	most := s.highest(stop)
	r.group.Wait()
	r.check(t)
	// Each connection holds its request three times (as received, as stored, as sent) and net/http's buffers. The
	// writer and the pool add their limits, and a claim its jobs.
	inUse := before.heap + clients*(3*body+32<<10) + 64<<20 + 64<<20 + 100*3*body
	t.Logf("evidence: heap %d MiB before, %d at most, bound %d; goroutines %d before, %d at most", before.heap>>20,
		most.heap>>20, heapOf(inUse)>>20,
		before.goroutines, most.goroutines)
	if most.heap > heapOf(inUse) {
		t.Errorf("the heap grew to %d MiB", most.heap>>20)
	}
	if most.goroutines > before.goroutines+3*clients+100 {
		t.Errorf("%d goroutines for %d connections", most.goroutines, clients)
	}
	if _, refused := r.count(); refused == 0 {
		t.Error("nothing was refused: the load was too small to show anything") // the server runs 80 jobs a second
	}
	for id, o := range c.settled(60*time.Second, r.yes...) {
		if o != "COMPLETED" {
			t.Errorf("%s ended %s", id, o)
		}
	}
	r.connections.CloseIdleConnections()
	s.calm(before)
}

// Each statement of SQL takes 300 ms. Outcomes wait in the outbox up to its limit; then submits are refused with a
// Retry-After, and the process' memory stays bounded. When SQL is fast again, everything drains.
func TestSlowSQL(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	const limit = 150
	c := newCluster(t)
	cfg, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = proxy.Addr()
	s := c.start("MYSQL_DSN="+cfg.FormatDSN(), fmt.Sprint("TIERQ_OUTBOX_LIMIT=", limit))
	before := s.state()
	proxy.SetWeather(testkit.Weather{Latency: 150 * time.Millisecond})
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	r := s.press(16, stop, "paid", func(int) string { return `{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]}}` })
	defer func() { end(); r.group.Wait() }()
	testkit.Eventually(t, 30*time.Second, "the gate closes for the outbox", func() (bool, string) {
		yes, refused := r.count()
		return refused > 50, fmt.Sprintf("%d accepted, %d refused, %d in the outbox", yes, refused, c.outbox())
	})
	if a := do(t, http.MethodGet, s.base+"/readyz?verbose", ""); a.status != http.StatusServiceUnavailable ||
		!contains(a.body, "outbox is full") {
		t.Errorf("readiness: %d %s", a.status, a.body)
	}
	full := c.outbox()
	<-time.After(slowFor)
	yes, _ := r.count()
	most := s.state()
	proxy.SetWeather(testkit.Weather{})
	testkit.Eventually(t, 30*time.Second, "submits are accepted again", func() (bool, string) {
		now, _ := r.count()
		return now > yes+50, fmt.Sprintf("%d accepted", now-yes)
	})
	end()
	r.group.Wait()
	r.check(t)
	t.Logf("evidence: %d in the outbox when it was full (limit %d); %d pieces were held back; heap %d MiB before, %d "+
		"while SQL was slow",
		full, limit, proxy.Suffered(), before.heap>>20, most.heap>>20)
	if most.heap > heapOf(before.heap+16<<20) {
		t.Errorf("the heap grew to %d MiB", most.heap>>20)
	}
	c.settled(60*time.Second, r.yes...)
	r.connections.CloseIdleConnections()
	s.calm(before)
}

func (c *cluster) outbox() int64 { return c.rdb.ZCard(c.t.Context(), "{tierq:0}:outbox").Val() }

// Each answer of Redis takes 50 ms. Submits are still answered in time, because waiting submits share calls, and
// no queue grows.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	heavy(t)
	const clients = 200
	c := newCluster(t)
	proxy := testkit.NewTCPProxy(t, c.redis.Addr())
	s := c.start("REDIS_URL=redis://"+proxy.Addr(), "TIERQ_CAPACITY=1000000")
	before := s.state()
	proxy.SetWeather(testkit.Weather{Latency: 25 * time.Millisecond})
	stop := make(chan struct{})
	r := s.press(clients, stop, "unpaid",
		func(int) string { return `{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]}}` })
	time.AfterFunc(slowFor, func() { close(stop) })
	most := s.highest(stop)
	r.group.Wait()
	r.check(t)
	calls := s.state().submits - before.submits
	t.Logf("evidence: %d calls for %d submits; goroutines %d before, %d at most; %d pieces were held back", calls,
		len(r.yes), before.goroutines,
		most.goroutines, proxy.Suffered())
	if calls*5 > len(r.yes)+r.unknown {
		t.Errorf("%d calls for %d submits: they do not share calls", calls, len(r.yes))
	}
	if most.goroutines > before.goroutines+3*clients+100 {
		t.Errorf("%d goroutines for %d connections", most.goroutines, clients)
	}
	proxy.SetWeather(testkit.Weather{})
	c.settled(60*time.Second, r.yes...)
	r.connections.CloseIdleConnections()
	s.calm(before)
}

// Redis stands still for 3 s, again and again. A job of the tier with the shortest heartbeat timeout keeps its
// lease and runs once.
func TestRedisStalls(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	s.tune("PUBLIC", map[string]any{"maxProcessingTimeMs": 60_000})
	file := filepath.Join(t.TempDir(), "runs")
	id := s.submit("public", counting(file, stalls*4500+1000))
	s.await(id, "PROCESSING", 5*time.Second)
	for range stalls {
		if err := c.redis.Freeze(); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		if err := c.redis.Thaw(); err != nil {
			t.Fatal(err)
		}
		if !c.leased(id) {
			t.Error("the lease is lost after the stall")
		}
		<-time.After(1500 * time.Millisecond) // at least two heartbeats
	}
	p := s.await(id, "COMPLETED", 20*time.Second)
	if _, marks := executions(t, file); p.RetryCount != 0 || len(marks[id]) != 2 {
		t.Errorf("retryCount %d, it ran %v", p.RetryCount, marks[id])
	}
	c.settled(20*time.Second, id)
}
