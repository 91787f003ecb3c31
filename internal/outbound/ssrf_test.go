package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// inwards are URLs that lead to this machine or its network, each in another way. PORT stands for the port of a
// listener on all addresses of this machine.
var inwards = []struct{ id, what, url string }{
	{"A32", "loopback", "http://127.0.0.1:PORT/"},
	{"A32", "another loopback", "http://127.255.255.254:PORT/"},
	{"A32", "this host", "http://0.0.0.0:PORT/"},
	{"A32", "its own name", "http://localhost:PORT/"},
	{"A32", "its own name, below", "http://Any.LocalHost:PORT/"},
	{"A33", "one number", "http://2130706433:PORT/"},
	{"A33", "octal", "http://0177.1:PORT/"},
	{"A33", "octal, one number", "http://017700000001:PORT/"},
	{"A33", "hexadecimal", "http://0x7f.1:PORT/"},
	{"A33", "hexadecimal, one number", "http://0x7f000001:PORT/"},
	{"A33", "short", "http://127.1:PORT/"},
	{"A33", "a full stop behind", "http://127.0.0.1.:PORT/"},
	{"A33", "encoded", "http://%31%32%37.0.0.1:PORT/"},
	{"A34", "IPv6 loopback", "http://[::1]:PORT/"},
	{"A34", "IPv6, this host", "http://[::]:PORT/"},
	{"A34", "IPv4 in IPv6", "http://[::ffff:127.0.0.1]:PORT/"},
	{"A34", "IPv4 in IPv6, hexadecimal", "http://[::ffff:7f00:1]:PORT/"},
	{"A34", "IPv4 in IPv6, the old way", "http://[::127.0.0.1]:PORT/"},
	{"A34", "NAT64", "http://[64:ff9b::7f00:1]:PORT/"},
	{"A34", "6to4", "http://[2002:7f00:1::1]:PORT/"},
	{"A34", "Teredo", "http://[2001:0:7f00:1::1]:PORT/"},
	{"A34", "link-local with a zone", "http://[fe80::1%25lo]:PORT/"},
	{"A34", "unique local", "http://[fd00::1]:PORT/"},
	{"A35", "metadata", "http://169.254.169.254/latest/meta-data/"},
	{"A35", "metadata", "http://100.100.100.200/"},
	{"A35", "metadata", "http://192.0.0.192/"},
	{"A35", "metadata", "http://168.63.129.16/"},
	{"A35", "metadata, IPv6", "http://[fd00:ec2::254]/"},
	{"A35", "metadata by name", "http://metadata.google.internal/"},
	{"A35", "metadata by an innocent name", "http://meta.example/"},
	{"A36", "a name for a private address", "http://private.example:PORT/"},
	{"A36", "a name for loopback", "http://loop.example:PORT/"},
	{"A36", "a name for IPv6 loopback", "http://loop6.example:PORT/"},
	{"A36", "a name for IPv4 in IPv6", "http://mapped.example:PORT/"},
	{"A36", "a name for all of them", "http://all.example:PORT/"},
	{"A36", "a name for this machine", "http://own.example:PORT/"},
	{"A36", "an alias of a private name", "http://alias.example:PORT/"},
	{"A38", "gopher", "gopher://127.0.0.1:PORT/_PING"},
	{"A38", "file", "file:///etc/passwd"},
	{"A38", "a socket", "unix:///run/redis.sock"},
	{"A38", "data", "data:text/plain,hi"},
	{"A38", "ftp", "ftp://127.0.0.1:PORT/"},
	{"A39", "a user name", "http://good.example@127.0.0.1:PORT/"},
	{"A39", "a fragment", "http://127.0.0.1:PORT#@good.example/"},
	{"A39", "a backslash", `http://good.example\@127.0.0.1:PORT/`},
	{"A39", "a tab", "http://127.0.0.1\t:PORT/"},
	{"A39", "a line break", "http://127.0.0.1:PORT/\r\nHost: good.example"},
	{"A39", "other full stops", "http://127。0。0。1:PORT/"},
	{"A39", "other digits", "http://①27.0.0.1:PORT/"},
	{"A39", "other letters", "http://ⓛocalhost:PORT/"},
	{"A40", "our own port", "http://OWN:PORT/"},
	{"A40", "Redis' port, anywhere", "http://93.184.216.34:6379/"},
	{"A40", "MySQL's port, anywhere", "http://[2606:4700::1111]:3306/"},
}

// Each way into the own network is refused: at submit if the URL itself shows it, otherwise after the lookup,
// before the connection. Behind the URLs are a real DNS server and a real listener on all addresses of this
// machine, and the environment names a proxy. The listener gets no connection.
func TestNothingLeadsIntoTheHouse(t *testing.T) {
	t.Attr("proves", "A32 A33 A34 A35 A36 A38 A39 A40 A41")
	house := listen(t)
	own := ownAddress(t)
	dns := &names{answers: map[string][]string{
		"metadata.google.internal": {"169.254.169.254"}, "meta.example": {"169.254.169.254"}, "private.example": {"10.0.0.7"},
		"localhost": {"127.0.0.1 ::1"}, "any.localhost": {"127.0.0.1"},
		"loop.example": {"127.0.0.1"}, "loop6.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"},
		"all.example": {"127.0.0.1 10.0.0.7 0.0.0.0 ::1 fd00::1"}, "own.example": {own},
		"alias.example": {">db.private.example 127.0.0.1"},
	}}
	strict, loose := client(t, Options{}), client(t, Options{Allow: elsewhere})
	dns.serve(t, strict)
	dns.serve(t, loose)
	table := "\n"
	for _, row := range inwards {
		written := strings.NewReplacer("PORT", house.port, "OWN", own).Replace(row.url)
		if ip := net.ParseIP(own); ip.To4() == nil {
			written = strings.Replace(written, own, "["+own+"]", 1)
		}
		where := "at submit"
		if loose.CheckURL(written) == nil {
			where = "by its address"
		}
		_, err := get(t, loose, written)
		keptOut(t, loose, row.what+" "+written, written, err)
		if where == "by its address" { // the name's own port, so that only the name can be refused
			written = strings.Replace(written, ":"+house.port, "", 1)
			if strict.CheckURL(written) != nil {
				where += ", or at submit"
			}
		}
		_, err = get(t, strict, written)
		keptOut(t, strict, row.what+" "+written, written, err)
		table += fmt.Sprintf("%s  %-28s %-46q refused %s\n", row.id, row.what, row.url, where)
	}
	if n := house.arrivals(t) + arrivals(t, proxy); n > 0 {
		t.Errorf("%d connections arrived", n)
	}
	t.Log(table + strconv.Itoa(len(inwards)) + " ways, 0 connections to the house or the proxy")
}

// If a name gives a public address first and others later or together with it, only the public one is called.
func TestRebinding(t *testing.T) {
	t.Attr("proves", "A36")
	house := listen(t)
	dns := &names{answers: map[string][]string{
		"later.example":  {"93.184.216.34", "127.0.0.1"},
		"beside.example": {"127.0.0.1 93.184.216.34 10.0.0.7"},
		"alias.example":  {">cdn.example 93.184.216.34", ">cdn.example 127.0.0.1"},
	}}
	c := client(t, Options{Allow: elsewhere})
	dns.serve(t, c)
	reached := c.watchDials()
	for _, name := range []string{"later.example", "beside.example", "alias.example"} {
		url, before := "http://"+name+":80/", len(reached())
		_, err := get(t, c, url)
		var failed *CallError
		if got := reached()[before:]; len(got) != 1 || got[0] != "93.184.216.34:80" ||
			!errors.As(err, &failed) && name != "beside.example" {
			t.Errorf("%s, first call: %v, reached %v, want the public address", name, err, got)
		}
		if name == "beside.example" {
			continue
		}
		for _, port := range []string{"80", house.port} {
			_, err = get(t, c, "http://"+name+":"+port+"/")
			notCalled(t, name+", later", err)
		}
		if got := reached()[before:]; len(got) != 1 {
			t.Errorf("%s: reached %v", name, got)
		}
	}
	if n := house.arrivals(t); n > 0 {
		t.Errorf("%d connections arrived", n)
	}
}

// A redirect from an allowed address into the own network is not followed, for any status and spelling.
func TestRedirectsIntoTheHouse(t *testing.T) {
	t.Attr("proves", "A37")
	house := listen(t)
	var to string
	status := 0
	outside := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
	c := client(t, Options{Allow: loopback})
	calls := int32(0)
	for _, to = range []string{
		"http://127.0.0.1:" + house.port + "/", "http://[::1]:" + house.port + "/", "//127.0.0.2:" + house.port,
		"http://localhost:" + house.port, "/loop",
	} {
		for _, status = range []int{301, 302, 303, 307, 308, 300} {
			calls++
			answer, err := c.Do(t.Context(),
				Request{Method: "POST", URL: outside.URL, Body: []byte("{}"), Header: http.Header{"Authorization": {"Bearer x"}}})
			if err != nil || answer.Status != status || outside.hits.Load() != calls {
				t.Errorf("%d to %s: %+v, %v, %d calls, want %d", status, to, answer, err, outside.hits.Load(), calls)
			}
		}
	}
	if n := house.arrivals(t); n > 0 {
		t.Errorf("%d connections arrived", n)
	}
}

// house is a listener on every address of this machine. The kernel accepts connections for it; no code answers
// them.
type house struct {
	net.Listener
	port string
}

func listen(t *testing.T) house {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return house{l, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
}

func (h house) arrivals(t *testing.T) int {
	t.Helper()
	n := arrivals(t, h)
	probe, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", h.port)) // shows that connections are counted
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	if got := arrivals(t, h.Listener); got != 1 {
		t.Fatalf("the listener saw %d connections of 1", got)
	}
	return n
}

// arrivals counts the connections that a listener got and that no code accepted.
func arrivals(t *testing.T, l net.Listener) (n int) {
	t.Helper()
	if h, ok := l.(house); ok {
		l = h.Listener
	}
	for ; ; n++ {
		if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
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

// ownAddress returns an address of this machine in its network, or loopback if it has none.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsPrivate() {
			return p.Addr().String()
		}
	}
	return "127.0.0.1"
}
