package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// bound is the time within which every submit must be answered, whatever happens to the stores: 2 s, and 2 s of
// slack for a busy machine. A submit that waited for the store itself would be answered after the outage, which
// lasts longer, or never.
const bound = 2*time.Second + 2*time.Second

// between is the pause of a load's client between two requests. Some forty requests a second from each client show
// the effects of a fault as well as hundreds, and leave the machine to the tests beside this one.
const between = 25 * time.Millisecond

// hammer submits one job after the other from several clients until stop is closed, and records the meaning of
// each answer.
type hammer struct {
	mu      sync.Mutex
	yes     []string             // 202: accepted
	when    map[string]time.Time // the time at which the client had the answer
	unknown []string             // 504: may have been accepted
	refused int                  // 503
	worst   time.Duration
	odd     []string
	group   sync.WaitGroup
}

func (h *hammer) run(s *server, stop <-chan struct{}, clients int, tier, body string) {
	for range clients {
		h.group.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(between):
				}
				a, err := try(http.MethodPost, s.base+"/"+tier+"/submit", body)
				h.mu.Lock()
				switch {
				case err != nil:
					h.odd = append(h.odd, err.Error())
				case a.status == http.StatusAccepted:
					id := accepted(s.t, a)
					if h.when == nil {
						h.when = map[string]time.Time{}
					}
					h.yes, h.when[id] = append(h.yes, id), time.Now()
				case a.status == http.StatusServiceUnavailable:
					h.refused++
				case a.status == http.StatusGatewayTimeout && a.code() == "OUTCOME_UNKNOWN":
					h.unknown = append(h.unknown, string(a.body))
				default:
					h.odd = append(h.odd, fmt.Sprintf("%d %s", a.status, a.body))
				}
				if err == nil {
					h.worst = max(h.worst, a.took)
				}
				h.mu.Unlock()
			}
		})
	}
}

func (h *hammer) check(t testing.TB) {
	t.Helper()
	if h.worst > bound {
		t.Errorf("a submit was answered only after %s", h.worst)
	}
	if len(h.odd) > 0 {
		t.Errorf("%d odd answers, the first: %s", len(h.odd), h.odd[0])
	}
	t.Logf("%d accepted, %d refused (503), %d unknown (504); the slowest answer took %s", len(h.yes), h.refused,
		len(h.unknown), h.worst.Round(time.Millisecond))
}

// outage describes how Redis is away for a while: frozen, or killed and started again.
type outage struct {
	name   string
	killed bool
	out    time.Duration
}

// Redis stops answering, or is killed. Submits get a clear answer within 2 s, no accepted job is lost, no worker
// is declared dead, and submits are accepted again soon after Redis is back. The long suite also freezes it for 20
// s.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	for _, o := range []outage{
		{"F13 frozen for 5 s", false, 5 * time.Second},
		{"F13 frozen for 1 s", false, time.Second},
		{"F15 killed and restarted", true, 3 * time.Second},
	} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			o.survive(t)
		})
	}
}

func (o outage) survive(t *testing.T) {
	c := newCluster(t)
	s := c.start()
	fault, heal := c.redis.Freeze, c.redis.Thaw
	if o.killed {
		fault, heal = c.redis.Kill, c.redis.Restart
	}
	file := filepath.Join(t.TempDir(), "runs")
	running := s.submit("public", counting(file, int(o.out.Milliseconds())+2000)) // its lease spans the outage
	testkit.Eventually(t, 5*time.Second, "it is running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 1, ""
	})
	var h hammer
	stop := make(chan struct{})
	h.run(s, stop, 8, "unpaid", counting(file, 0))
	h.accepts(t, 50)
	before := len(h.snapshot())
	if err := fault(); err != nil {
		t.Fatal(err)
	}
	<-time.After(o.out)
	during := len(h.snapshot())
	if err := heal(); err != nil {
		t.Fatal(err)
	}
	healed := time.Now()
	testkit.Eventually(t, 5*time.Second, "submits are accepted again", func() (bool, string) {
		n := len(h.snapshot())
		return n > during+8, fmt.Sprintf("%d accepted", n)
	})
	t.Logf("evidence: %d accepted before, %d during %s without Redis; accepted again %s after it was back", before,
		during-before, o.out, time.Since(healed).Round(10*time.Millisecond))
	close(stop)
	h.group.Wait()
	h.check(t)
	if closed, opened := strings.Index(s.Output(), `"gate closed"`),
		strings.LastIndex(s.Output(), `"gate open"`); o.out > 2*time.Second &&
		(h.refused == 0 || closed < 0 || opened < closed) {
		t.Errorf("%d submits were refused; the log says at %d that the gate closed, at %d that it opened", h.refused, closed,
			opened)
	}
	if p := s.await(running, "COMPLETED", 15*time.Second); p.RetryCount != 0 {
		t.Errorf("the running job was taken for dead: retryCount %d", p.RetryCount)
	}
	outcomes := c.settled(30*time.Second, append(h.snapshot(), running)...)
	for id, o := range outcomes {
		if o != "COMPLETED" {
			t.Errorf("%s ended %s", id, o)
		}
	}
	if n := len(outcomes); n > len(h.yes)+len(h.unknown)+1 {
		t.Errorf("%d outcomes of %d accepted and %d unknown: a refused job ran", n, len(h.yes)+1, len(h.unknown))
	}
	var retried int
	c.row(`SELECT COUNT(*) FROM job_results WHERE retry_count > 0`, &retried)
	if retried > 0 {
		t.Errorf("%d jobs were taken for crashed", retried)
	}
}

// accepts waits until n more jobs are accepted.
func (h *hammer) accepts(t *testing.T, n int) {
	t.Helper()
	before := len(h.snapshot())
	testkit.Eventually(t, 30*time.Second, fmt.Sprintf("%d more jobs are accepted", n), func() (bool, string) {
		now := len(h.snapshot())
		return now >= before+n, fmt.Sprint(now - before)
	})
}

func (h *hammer) snapshot() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.yes...)
}

// MariaDB stands still. Jobs still finish, polls show them as COMPLETED, and readiness says DEGRADED and stays
// 200. Afterwards every row exists once. The long suite does it for a minute.
func TestSQLOutage(t *testing.T) {
	t.Attr("proves", "F14 S2-G4")
	t.Parallel()
	for name, out := range sqlOutages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testkit.NewMariaDB(t)
			c := clusterWith(t, m.NewDatabase(t))
			s := c.start()
			var h hammer
			stop := make(chan struct{})
			h.run(s, stop, 4, "paid", "")
			h.accepts(t, 50)
			fault, heal := m.Freeze, m.Thaw
			if strings.HasSuffix(name, "killed") {
				fault, heal = m.Kill, m.Restart
			}
			if err := fault(); err != nil {
				t.Fatal(err)
			}
			down := time.Now()
			before := len(h.snapshot())
			testkit.Eventually(t, 10*time.Second, "readiness is DEGRADED", func() (bool, string) {
				a := do(t, http.MethodGet, s.base+"/readyz?verbose", "")
				return a.status == http.StatusOK && string(a.body) != "" && contains(a.body, "DEGRADED"), string(a.body)
			})
			id := s.submit("paid", "")
			s.await(id, "COMPLETED", 5*time.Second)
			<-time.After(out - time.Since(down))
			h.check(t)
			t.Logf("evidence: %d accepted before, %d while SQL was away for %s", before, len(h.snapshot())-before,
				time.Since(down).Round(time.Second))
			if err := heal(); err != nil {
				t.Fatal(err)
			}
			close(stop)
			h.group.Wait()
			h.check(t)
			if h.refused > 0 || len(h.unknown) > 0 {
				t.Errorf("SQL away refused %d and left %d unknown: submits do not need it", h.refused, len(h.unknown))
			}
			outcomes := c.settled(60*time.Second, append(h.snapshot(), id)...)
			if len(outcomes) != len(h.yes)+1 {
				t.Errorf("%d outcomes of %d jobs", len(outcomes), len(h.yes)+1)
			}
		})
	}
}
