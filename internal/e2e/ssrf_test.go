package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// inwards are URLs that lead to this machine or its network. PORT stands for the port of a listener on all its
// addresses.
var inwards = []string{
	// A32
	"http://127.0.0.1:PORT/", "http://localhost:PORT/", "http://localhost/", "http://a.localhost/", "http://0.0.0.0:PORT/",
	"http://2130706433:PORT/", "http://0177.1:PORT/", "http://0x7f.1:PORT/", "http://127.1:PORT/", // A33
	// A34
	"http://[::1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://[64:ff9b::7f00:1]:PORT/",
	"http://[fe80::1%25lo]:PORT/",
	"http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "http://[fd00:ec2::254]/", // A35
	"gopher://127.0.0.1:PORT/", "file:///etc/passwd", "unix:///run/redis.sock", "data:text/plain,hi", // A38
	"http://good.example@127.0.0.1:PORT/", "http://127.0.0.1:PORT#@good.example/", `http://good.example\\@127.0.0.1:PORT/`,
	`http://127.0.0.1\t:PORT/`, "http://127。0。0。1:PORT/", // A39
	"http://93.184.216.34:6379/", "http://example.com:3306/", // A40
}

// calling are the submits that may contain a URL.
var calling = []struct{ name, body string }{
	{"callbackUrl", `{"callbackUrl":"%s"}`},
	{"SEND_WEBHOOK", `{"type":"SEND_WEBHOOK","payload":{"url":"%s"}}`},
	{"FORWARD_DOCUMENT", `{"type":"FORWARD_DOCUMENT","payload":{"documentId":"1","contentType":"text/plain","body":"",` +
		`"endpoints":["%s"]}}`},
}

// A URL that leads into the own network is refused at submit, in every place where a job has one. If only the
// resolved address shows this, the call fails with the words for a name that does not exist, and only the log says
// which it was. The environment names a proxy. Neither the proxy nor the network gets a connection.
func TestURLsIntoTheHouse(t *testing.T) {
	t.Attr("proves", "A32 A33 A34 A35 A36 A37 A38 A39 A40 A41")
	t.Parallel()
	bin := testkit.BuildTierq(t)
	house, proxy := listenAll(t), listenAll(t)
	port := strconv.Itoa(house.Addr().(*net.TCPAddr).Port)
	settings := func(more ...string) []string {
		p := "http://" + strings.Replace(proxy.Addr().String(), "[::]", "127.0.0.1", 1)
		return append([]string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(), "HTTP_PROXY=" + p,
			"HTTPS_PROXY=" + p, "ALL_PROXY=" + p}, more...)
	}
	strict := startServer(t, bin, settings()...)
	for _, u := range inwards {
		for _, in := range calling {
			a := strict.ask("paid", fmt.Sprintf(in.body, strings.ReplaceAll(u, "PORT", port)))
			if want := map[bool]int{true: http.StatusBadRequest,
				false: http.StatusUnprocessableEntity}[in.name == "callbackUrl"]; a.status != want {
				t.Errorf("%s %s: %d %s", in.name, u, a.status, a.body)
			}
		}
	}
	t.Logf("evidence: %d URLs in %d places, all refused at submit", len(inwards), len(calling))

	// With another address allowed, the submit accepts names, and the call checks their addresses.
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	givenUp := func(s *server, url, cause, says string) {
		t.Helper()
		for _, in := range calling[1:] {
			id := s.submit("paid", strings.Replace(fmt.Sprintf(in.body, url+"/s3cret"), `{"type"`,
				`{"maxRetries":0,"type"`, 1))
			p := s.await(id, "FAILED", 20*time.Second)
			said := lastError.FindStringSubmatch(string(do(t, http.MethodGet, s.base+"/jobs/"+id, "").body))
			if p.FailureCause == nil || *p.FailureCause != cause || p.RetryCount != 0 || said == nil ||
				!strings.Contains(said[1], says) || strings.Contains(said[1], "s3cret") {
				t.Errorf("%s to %s: %+v, %q", in.name, url, p, said)
			}
			t.Logf("evidence: %s to %s: %q", in.name, strings.ReplaceAll(url, port, "PORT"), said[1:])
		}
	}
	loose := startServer(t, bin, settings("TIERQ_EGRESS_ALLOW=198.18.77.0/24")...)
	const unsaid = "it has no address that is called"
	givenUp(loose, "http://localhost:"+port, "HANDLER_ERROR", unsaid)
	if log := loose.Output(); strings.Count(log,
		`"why":"the host leads to an address that is not called"`) != len(calling)-1 {
		t.Errorf("the log does not say why: %s", log)
	}
	givenUp(loose, "http://nobody.invalid:"+port, "HANDLER_ERROR", unsaid)
	if all, err := net.LookupHost(own); err == nil {
		t.Logf("evidence: this machine calls itself %v", all)
		givenUp(loose, "http://"+own+":"+port, "HANDLER_ERROR", unsaid)
	}

	// One address of the network is allowed, and redirects to another one.
	outside := newReceiver(t, func(w http.ResponseWriter, _ call, _ int) {
		w.Header().Set("Location", "http://127.0.0.2:"+port+"/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	astray := startServer(t, bin, settings("TIERQ_EGRESS_ALLOW=127.0.0.1/32")...)
	givenUp(astray, outside.URL, "PERMANENT_ERROR", "307")
	if len(outside.heard()) < len(calling)-1 {
		t.Errorf("%d calls", len(outside.heard()))
	}

	if n, m := arrived(t, house), arrived(t, proxy); n != 0 || m != 0 {
		t.Errorf("%d connections to the house, %d to the proxy", n, m)
	}
	for _, s := range []*server{strict, loose, astray} {
		if strings.Contains(s.Output(), "s3cret") {
			t.Error("a URL's path is in the log")
		}
	}
}

var lastError = regexp.MustCompile(`"lastError":"([^"]*)"`)

// listenAll listens on every address of this machine. The kernel accepts connections for it; no code answers them.
func listenAll(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

// arrived counts the connections that no code has accepted yet.
func arrived(t *testing.T, l *net.TCPListener) (n int) {
	t.Helper()
	for ; ; n++ {
		if err := l.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
}
