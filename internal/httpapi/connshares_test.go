package httpapi

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// dialFrom opens a connection from an address of this machine.
func dialFrom(t *testing.T, s *Server, from string) *caller {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &caller{t, c, bufio.NewReader(c)}
}

// An address that uses all of its share for requests under way takes no seats from others: its next connection
// replaces an idle one of its own, or is refused.
func TestSeats_AnAddressHasItsShare(t *testing.T) {
	t.Attr("proves", "A17")
	entered, leave := make(chan struct{}), make(chan struct{})
	var said strings.Builder
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			entered <- struct{}{}
			<-leave
		}
	}), Limits{Connections: 8, PerAddress: 3, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")}},
		slog.New(slog.NewTextHandler(&said, nil)))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy := func(from string) *caller {
		t.Helper()
		c := dialFrom(t, s, from)
		c.send("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
		<-entered
		return c
	}
	const flooder = "127.0.0.2"
	first, idle := busy(flooder), dialFrom(t, s, flooder)
	idle.asks()
	s.are(t, 1, silent)
	honest := dial(t, s) // from here on idle longer than the flooder's idle connection
	honest.asks()
	s.are(t, 2, silent)
	idle.asks()
	s.are(t, 2, silent)
	second := busy(flooder)
	third := busy(flooder) // a fourth: the flooder's idle connection is closed, not honest
	idle.gone()
	for range 3 { // all of the flooder's connections are busy: one more is refused
		dialFrom(t, s, flooder).gone()
	}
	honest.asks() // the connection was not closed
	dial(t, s).asks()
	for range 2 { // a trusted proxy has no share
		busy("127.0.0.3")
	}
	dialFrom(t, s, "127.0.0.3").asks()
	close(leave)
	for _, c := range []*caller{first, second, third} {
		c.answered(200)
	}
	dialFrom(t, s, flooder).asks() // the flooder's idle connections can be replaced again
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "an address uses its whole share"); n != 1 ||
		!strings.Contains(said.String(), "from=127.0.0.2/32 connections=3") {
		t.Errorf("said %d times:\n%s", n, &said)
	}
	if len(s.listener.sharers) != 0 || s.listener.taken != 0 {
		t.Errorf("%d addresses and %d seats are not given back", len(s.listener.sharers), s.listener.taken)
	}
}

// Loopback, unless PerAddress is set, trusted proxies and invalid addresses have no share. The default share is a
// quarter of the connections, and an IPv6 /64 counts as one address.
func TestSeats_WhoHasAShare(t *testing.T) {
	t.Attr("proves", "A17")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for address, c := range map[string]struct{ exempt, said bool }{
		"": {true, true}, "127.0.0.1": {true, false}, "::1": {true, false}, "10.1.2.3": {true, true},
		"192.0.2.1": {false, false}, "2001:db8::1": {false, false},
	} {
		addr, _ := netip.ParseAddr(address)
		if got := (Limits{TrustedProxies: trusted}).exempt(addr); got != c.exempt {
			t.Errorf("%q: exempt %v", address, got)
		}
		if got := (Limits{PerAddress: 3, TrustedProxies: trusted}).exempt(addr); got != c.said {
			t.Errorf("%q, where the setting is given: exempt %v", address, got)
		}
	}
	for connections, want := range map[int]int{1: 1, 16: 4, 8192: 2048} {
		if got := newSeats(nil, Limits{Connections: connections}, nil).share; got != want {
			t.Errorf("of %d: %d, want %d", connections, got, want)
		}
	}
	a, b, c := networkOf(netip.MustParseAddr("2001:db8::1")), networkOf(netip.MustParseAddr("2001:db8::ffff:1")),
		networkOf(netip.MustParseAddr("2001:db8:0:1::1"))
	if a != b || a == c {
		t.Errorf("%s %s %s", a, b, c)
	}
	if v4 := networkOf(plainAddr(netip.MustParseAddr("::ffff:192.0.2.1"))); v4.String() != "192.0.2.1/32" {
		t.Error(v4)
	}
}

// A flood of connections from one address takes no more than the address's share, and other clients are served.
func TestSeats_AFloodFromOneAddress(t *testing.T) {
	t.Attr("proves", "A17")
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", newRooms(t), Limits{Connections: 16, PerAddress: 4}, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	for range 100 { // the server reads the bodies, which never come
		c := dialFrom(t, s, "127.0.0.2")
		// The connection may be closed already.
		_, _ = io.WriteString(c, "POST /paid/submit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 9\r\n\r\n{")
	}
	begun := time.Now()
	for range 20 {
		dial(t, s).asks()
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("others were served after %s", took)
	}
}
