package outbound

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

// TestMain puts a proxy into the environment, before anything reads it: a listener that never answers.
func TestMain(m *testing.M) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://"+proxy.Addr().String()); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// loopback is what an operator allows so that tests can be called.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

func client(t *testing.T, opt Options) *Client {
	t.Helper()
	c := New(opt)
	t.Cleanup(c.Close)
	return c
}

// receiver is a real listener that counts what reaches it.
type receiver struct {
	*httptest.Server
	hits atomic.Int32
}

func receive(t *testing.T, handle http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.hits.Add(1)
		handle(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func get(t *testing.T, c *Client, url string) (Response, error) {
	t.Helper()
	return c.Do(t.Context(), Request{Method: http.MethodGet, URL: url})
}

// refused fails the test unless err is the guard's and final.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	var r *RefusedError
	if !errors.As(err, &r) || !job.Judge(err).Permanent {
		t.Errorf("%s: %v, want a permanent refusal", what, err)
	}
}

// names is a DNS server: each lookup of an A record of a name answers its next list of addresses, the last one again and again.
type names struct {
	mu      sync.Mutex
	answers map[string][]string // by name: lists of addresses, separated by spaces
	asked   map[string]int
}

// serve answers on a free port and makes the client look names up there.
func (n *names) serve(t *testing.T, c *Client) {
	t.Helper()
	n.asked = map[string]int{}
	at, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			l, from, err := at.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = at.WriteTo(n.answer(query[:l]), from)
		}
	}()
	t.Cleanup(func() { _ = at.Close(); <-done })
	c.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", at.LocalAddr().String())
	}}
}

func (n *names) answer(query []byte) []byte {
	var labels []string
	end := 12
	for l := int(query[end]); l > 0; l = int(query[end]) {
		labels = append(labels, string(query[end+1:end+1+l]))
		end += 1 + l
	}
	end += 5 // the root label, type and class
	reply := append([]byte(nil), query[:end]...)
	copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	addresses, known := n.next(strings.ToLower(strings.Join(labels, ".")), binary.BigEndian.Uint16(query[end-4:]) == 1)
	if !known {
		reply[3] = 0x83 // no such name
	}
	for _, a := range addresses {
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, netip.MustParseAddr(a).AsSlice()...)
		reply[7]++
	}
	return reply
}

func (n *names) next(name string, v4 bool) (addresses []string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lists, known := n.answers[name]
	if !known || !v4 {
		return nil, known
	}
	i := min(n.asked[name], len(lists)-1)
	n.asked[name]++
	return strings.Fields(lists[i]), true
}
