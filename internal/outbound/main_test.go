package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/handler"
)

// proxy is a listener that never answers.
var proxy net.Listener

// TestMain puts the proxy into the environment, before any code reads it.
func TestMain(m *testing.M) {
	var err error
	if proxy, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://"+proxy.Addr().String()); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// loopback is the operator's list that lets the client call test servers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// elsewhere is an operator's list of addresses that no test uses. With such a list, every name is looked up.
var elsewhere = []netip.Prefix{netip.MustParsePrefix("198.18.77.0/24")}

func client(t *testing.T, opt Options) *Client {
	t.Helper()
	c := New(opt)
	t.Cleanup(c.Close)
	return c
}

// receiver is a real server that counts the requests it gets.
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

// refused fails the test unless err is a permanent RefusedError.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	var r *RefusedError
	if !errors.As(err, &r) || !handler.Judge(err).Permanent {
		t.Errorf("%s: %v, want a permanent refusal", what, err)
	}
}

// notCalled fails the test unless err is the CallError for a name without a permitted address.
func notCalled(t *testing.T, what string, err error) {
	t.Helper()
	var failed *CallError
	if !errors.As(err, &failed) || failed.Reason != noAddress || handler.Judge(err).Permanent {
		t.Errorf("%s: %v, want %q", what, err, noAddress)
	}
}

// keptOut fails the test unless the URL was refused as written, or its name was not called.
func keptOut(t *testing.T, c *Client, what, url string, err error) {
	t.Helper()
	if c.CheckURL(url) != nil {
		refused(t, what, err)
		return
	}
	notCalled(t, what, err)
}
