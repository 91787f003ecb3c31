package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// edge is a server under attack, with an honest caller who must be served meanwhile.
type edge struct {
	*server
	t    *testing.T
	addr string
	rest int64 // memory in bytes before the first attack

	conns   []net.Conn // of the attack that is under way
	unready string     // what the server said right after the attack, if it was not ready; "" = nothing
}

// patience is the time within which an honest caller must get an answer during an attack.
const patience = 2 * time.Second

// spare is the memory that the server may use under all attacks, in addition to its memory at rest. 8192
// connections take about 20 KiB each: 160 MiB. Bodies in transit take at most 64 MiB, batches 96 MiB. The garbage
// may be as large as the live bytes.
const spare = 2 * (160 + 64 + 96) << 20

func newEdge(t *testing.T, env ...string) *edge {
	t.Helper()
	s := newCluster(t).start(env...)
	e := &edge{server: s, t: t, addr: strings.TrimPrefix(s.base, "http://")}
	for range 20 {
		e.submit("paid", "")
	}
	e.rest = e.memory()
	return e
}

// memory returns the server's memory in bytes.
func (s *server) memory() int64 {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.Pid()))
	if err != nil {
		s.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// under runs an attack and prints its figures. During the attack an honest caller, who opens a connection for each
// request, submits and polls. Each request must be answered, and at least three in four as asked and in time. The
// server's memory must stay within its limit. A busy test machine may delay Redis for a while, so an attack with
// too few successes is repeated once the server is ready, three times in all.
func (e *edge) under(t *testing.T, attack func(t *testing.T)) {
	t.Helper()
	for tries := 1; ; tries++ {
		e.unready = ""
		asked, missed := e.beside(t, attack)
		if t.Failed() {
			return
		}
		if missed*4 <= asked {
			if e.unready != "" {
				t.Errorf("callers were served, and the server was not ready after the attack: %s", e.unready)
			}
			return
		}
		if tries == 3 {
			t.Errorf("%d of %d submits and polls of somebody else were refused or late", missed, asked)
			return
		}
		e.ready(t)
	}
}

// ready waits until the server accepts jobs.
func (e *edge) ready(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, "the server is ready", func() (bool, string) {
		a := do(t, http.MethodGet, e.base+"/readyz", "")
		return a.status == http.StatusOK, string(a.body)
	})
}

// beside runs an attack once, and returns the number of an honest caller's requests and of those that were not
// served.
func (e *edge) beside(t *testing.T, attack func(t *testing.T)) (asked, missed int) {
	t.Helper()
	honest := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	over := make(chan struct{})
	var group sync.WaitGroup
	var slowest time.Duration
	group.Go(func() {
		for last := false; !last || asked < 16; {
			select {
			case <-over:
				last = true
			case <-time.After(25 * time.Millisecond):
			}
			began := time.Now()
			status, err := submitAndPoll(honest, e.base)
			took := time.Since(began) / 2
			asked++
			slowest = max(slowest, took)
			switch {
			case err != nil && !os.IsTimeout(err): // only a timeout counts as missed; a cut connection is an error
				t.Errorf("somebody else's submit and poll: %v", err)
				return
			case err != nil || took > patience || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
				missed++
			case status != http.StatusOK:
				t.Errorf("somebody else's submit and poll: %d", status)
				return
			}
		}
	})
	var most atomic.Int64
	group.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			most.Store(max(most.Load(), e.memory()))
			select {
			case <-over:
				return
			case <-ticker.C:
			}
		}
	})
	func() {
		defer e.hangUp() // these also if the attack fails the test
		defer group.Wait()
		defer close(over)
		attack(t)
	}()
	if grown := most.Load() - e.rest; grown > spare {
		t.Errorf("the server's memory grew by %d MiB", grown>>20)
	}
	t.Logf("evidence: %d submits and polls of somebody else, %d refused or late, at most %s each; memory at most %d "+
		"MiB, at rest %d MiB",
		asked, missed, slowest.Round(time.Millisecond), most.Load()>>20, e.rest>>20)
	return asked, missed
}

// submitAndPoll returns the status of the poll, or of the submit if that was not accepted.
func submitAndPoll(c *http.Client, base string) (status int, err error) {
	res, err := c.Post(base+"/paid/submit", "", nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	_, id, found := strings.Cut(string(body), `"jobId":"`)
	if err != nil || res.StatusCode != http.StatusAccepted || !found {
		return res.StatusCode, err
	}
	if res, err = c.Get(base + "/result/poll?jobId=" + id[:36]); err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// attackers open n connections, from several local addresses so that the ports suffice, and send text on each.
// They are closed when the attack is over: a repeat of ten thousand more would take this process' last descriptors.
func (e *edge) attackers(t *testing.T, n int, text string) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	var group sync.WaitGroup
	for worker := range 16 {
		dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(worker))}}
		group.Go(func() {
			for i := worker; i < n; i += 16 {
				c, err := dialer.DialContext(t.Context(), "tcp", e.addr)
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				conns[i] = c
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				_, _ = io.WriteString(c, text) // the server may have closed it
			}
		})
	}
	group.Wait()
	e.conns = append(e.conns, conns...)
	return conns
}

// hangUp closes the connections of an attack.
func (e *edge) hangUp() {
	for _, c := range e.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	e.conns = nil
}

// trickle sends a piece on each connection, several times within about a second and a half.
func trickle(conns []net.Conn, piece string) {
	for range 3 {
		for _, c := range conns {
			_, _ = io.WriteString(c, piece) // the server may have closed it
		}
		<-time.After(500 * time.Millisecond)
	}
}

const (
	submitHead = "POST /paid/submit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	batchHead  = "POST /paid/submit/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)

// While a server is attacked at its edges, honest callers are served and its memory stays within its limit.
func TestEdges(t *testing.T) {
	t.Parallel()
	heavy(t)
	e := newEdge(t, "TIERQ_H2C=on", "TIERQ_WORKERS=2")
	for _, one := range []struct {
		name   string
		attack func(t *testing.T)
	}{
		{"Slowloris_A14", e.slowloris}, {"SlowBodies_A15", e.slowBodies}, {"SlowReaders_A16", e.slowReaders},
		{"Idle_A17", e.idle},
		{"EndlessChunks_A12", e.endlessChunks}, {"Bombs_A13", e.bombs}, {"Pollers_A24", e.pollers},
		{"AbortedSubmits_A30", e.aborted}, {"Paths_A51", e.paths},
	} {
		t.Run(one.name, func(t *testing.T) { e.under(t, one.attack) })
	}
	e.ready(t)
}

func (e *edge) slowloris(t *testing.T) {
	conns := e.attackers(t, 2000, submitHead+"X-A: ")
	trickle(conns, "a")
}

func (e *edge) slowBodies(t *testing.T) {
	conns := e.attackers(t, 1500, submitHead+"Content-Length: 80000\r\n\r\n"+`{"payload":"`+strings.Repeat("x", 60_000))
	trickle(conns, "x")
}

// slowReaders request a large result repeatedly and do not read it.
func (e *edge) slowReaders(t *testing.T) {
	id := e.submit("paid", `{"type":"BIG","payload":{"bytes":65000}}`)
	e.await(id, "COMPLETED", 10*time.Second)
	poll := "GET /result/poll?jobId=" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	conns := e.attackers(t, 500, strings.Repeat(poll, 20))
	trickle(conns, poll)
}

// idle opens ten thousand connections, more than the server holds; half of them send one request.
func (e *edge) idle(t *testing.T) {
	e.attackers(t, 5000, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	e.attackers(t, 5000, "")
	descriptors := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", e.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	testkit.Eventually(t, 20*time.Second, "the server has accepted as many as it takes", func() (bool, string) {
		n := descriptors()
		return n >= 8000, fmt.Sprint(n, " descriptors")
	})
	<-time.After(time.Second)
	if n := descriptors(); n < 8000 || n > 8192+512 {
		t.Errorf("the server has %d descriptors", n)
	}
}

// endlessChunks sends bodies without an end, and small compressed bodies that would expand to large ones.
func (e *edge) endlessChunks(t *testing.T) {
	var group sync.WaitGroup
	refused := make([]atomic.Int64, 2)
	chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
	for n, head := range []string{submitHead + "Transfer-Encoding: chunked\r\n\r\n",
		submitHead + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"} {
		for _, c := range e.attackers(t, 20, head) {
			group.Go(func() {
				for range 1000 {
					if _, err := io.WriteString(c, chunk); err != nil {
						if !errors.Is(err, os.ErrDeadlineExceeded) { // the test's own deadline: the server neither read on nor closed
							refused[n].Add(1)
						}
						return
					}
				}
			})
		}
	}
	group.Wait()
	if refused[0].Load() != 20 || refused[1].Load() != 20 {
		t.Errorf("%d bodies without an end and %d compressed ones were cut off, of 20 each", refused[0].Load(),
			refused[1].Load())
	}
}

// bombs sends bodies that are expensive to parse: as deep, as wide and as long as a batch may be.
func (e *edge) bombs(t *testing.T) {
	const size = 16<<20 - 64
	var keys bytes.Buffer
	keys.WriteString(`[{"payload":{`)
	for n := range 1_000_000 {
		fmt.Fprintf(&keys, `"%x":1,`, n)
	}
	keys.WriteString(`"a":1}}]`)
	bodies := map[string]string{
		"deep":               strings.Repeat("[", size),
		"deep, and closed":   strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"deep objects":       "[" + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "]",
		"a million keys":     keys.String(),
		"ten million digits": `[{"payload":` + strings.Repeat("9", 10_000_000) + `}]`,
		"a large exponent":   `[{"payload":1e999999}]`,
		"a long string":      `[{"payload":"` + strings.Repeat("x", size) + `"}]`,
		"many entries":       "[" + strings.Repeat("{},", size/3) + "{}]",
		"blanks":             strings.Repeat(" ", size),
	}
	var group sync.WaitGroup
	for name, body := range bodies {
		group.Go(func() {
			a, err := try(http.MethodPost, e.base+"/paid/submit/batch", body)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if a.status < 400 && !strings.Contains(string(a.body), "INVALID_") &&
				!strings.Contains(string(a.body), "TOO_LARGE") || a.status >= 500 && a.status != 503 {
				t.Errorf("%s: %d %.200s", name, a.status, a.body)
			}
		})
	}
	group.Wait()
}

// pollers fill all places for waiting polls. The next waiting poll is refused with a Retry-After.
func (e *edge) pollers(t *testing.T) {
	id := e.submit("paid", `{"delaySeconds":600}`)
	poll := "GET /result/poll?jobId=" + id + "&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var hanging sync.WaitGroup
	t.Cleanup(hanging.Wait) // their connections are closed when the attack is over
	for _, c := range e.attackers(t, 7000, poll) {
		if c != nil { // attackers has reported the error
			hanging.Go(func() { pollAgain(c, poll) })
		}
	}
	testkit.Eventually(t, 90*time.Second, "there is no more room to wait", func() (bool, string) {
		a, err := try(http.MethodGet, e.base+"/result/poll?jobId="+id+"&wait=10ms", "")
		full := err == nil && a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
		return full, fmt.Sprint(err, string(a.body))
	})
	wants(t, do(t, http.MethodGet, e.base+"/result/poll?jobId="+id, ""), http.StatusOK, "")
}

// pollAgain reads the answers on a connection and sends the poll again 100 ms after each, until the connection is
// closed. So many polls at once make Redis slow, and then some are refused although there is room to wait.
func pollAgain(c net.Conn, poll string) {
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	answers := bufio.NewReaderSize(c, 512)
	for {
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			return
		}
		<-time.After(100 * time.Millisecond)
		if _, err := io.WriteString(c, poll); err != nil {
			return
		}
	}
}

// aborted are submits whose clients leave half-way, or before the answer.
func (e *edge) aborted(t *testing.T) {
	whole := submitHead + "Content-Length: 2\r\n\r\n{}"
	for _, text := range []string{whole[:len(whole)-1], whole} {
		for _, c := range e.attackers(t, 500, text) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}
	if a := do(t, http.MethodGet, e.base+"/readyz", ""); a.status != http.StatusOK {
		e.unready = fmt.Sprintf("%d %s", a.status, a.body)
	}
}

// paths requests guessed file names. The server has no such files: all it serves is compiled in.
func (e *edge) paths(t *testing.T) {
	for _, path := range []string{
		"/.git/config", "/.env", "/.env%00.yaml", "/docs/../../../etc/passwd", "/docs/..%2f..%2f..%2fetc%2fpasswd",
		"/docs/%2e%2e/.env", "/..%5c..%5c.env", "//etc/passwd",
		"/openapi.yaml/..%2f..%2f.env", "/openapi.yaml%00", "/docs%00", "/docs/%c0%ae%c0%ae/.env",
		"/jobs/..%2f..%2fetc%2fpasswd/artifact", "/jobs/%00/artifact", "/debug/vars", "/server-status",
	} {
		conn := e.attackers(t, 1, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0]
		answer, err := io.ReadAll(conn)
		if text := string(answer); err != nil ||
			!strings.HasPrefix(text, "HTTP/1.1 404 ") && !strings.HasPrefix(text, "HTTP/1.1 400 ") ||
			!strings.Contains(text, "application/problem+json") || strings.Contains(text, "root:") {
			t.Errorf("%s: %v %.300s", path, err, text)
		}
	}
}
