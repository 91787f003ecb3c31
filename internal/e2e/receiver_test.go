package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// outward are the settings of a server that may call a test's receivers, and signs its messages.
var outward = []string{"TIERQ_EGRESS_ALLOW=127.0.0.0/8", "TIERQ_WEBHOOK_SECRET=" + secret,
	"TIERQ_WEBHOOK_MASTER=" + master}

const (
	master = "whmaster_dGllcnEncyBlbmQtdG8tZW5kIHRlc3RzLCAzMiBieXRlcyE="
	secret = "whsec_dGllcnEncyBlbmQtdG8tZW5kIHRlc3RzLCAyOCBieXRlcw=="
)

// call is a request that a receiver got.
type call struct {
	method, path string
	header       http.Header
	body         []byte
	at           time.Time
}

func (c call) is(method, path string) bool { return c.method == method && c.path == path }

// receiver is a foreign HTTP server: it records its requests, and answers as its test says.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

// newReceiver starts a receiver that answers with answer, whose before is the number of earlier calls of this
// method and path. A nil answer means 200 to all.
func newReceiver(t testing.TB, answer func(w http.ResponseWriter, c call, before int)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
		if err != nil {
			return // the caller was killed
		}
		c := call{method: req.Method, path: req.URL.Path, header: req.Header, body: body, at: time.Now()}
		r.mu.Lock()
		before := 0
		for _, old := range r.calls {
			if old.is(c.method, c.path) {
				before++
			}
		}
		r.calls = append(r.calls, c)
		r.mu.Unlock()
		if answer != nil {
			answer(w, c, before)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) heard() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[:len(r.calls):len(r.calls)]
}

// of returns the calls with this method and path.
func (r *receiver) of(method, path string) (some []call) {
	for _, c := range r.heard() {
		if c.is(method, path) {
			some = append(some, c)
		}
	}
	return some
}

// forget deletes the recorded calls.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}
