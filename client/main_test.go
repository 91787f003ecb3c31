package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
	"github.com/tierq/tierq/client/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const unknownID = "019de340-01fe-7a58-be69-ffffffffffff"

// newServer starts a fake server and a client with short waits between tries.
func newServer(t *testing.T, opts ...Option) (*fake.Server, *Client) {
	t.Helper()
	s := fake.New()
	t.Cleanup(s.Close)
	c := New(s.URL, append([]Option{WithBackoff(time.Millisecond, 5*time.Second)}, opts...)...)
	t.Cleanup(c.Close)
	return s, c
}

// firstOnly gives the first n requests a fault.
func firstOnly(n int, f fake.Fault) func(int, *http.Request) fake.Fault {
	return func(i int, _ *http.Request) fake.Fault {
		if i <= n {
			return f
		}
		return fake.Fault{}
	}
}

// soon returns a context that limits a test's waits.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// submitted submits a job and returns its id.
func submitted(t *testing.T, c *Client) string {
	t.Helper()
	id, err := c.Submit(soon(t), Paid, "SIMULATION", nil)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// wire is a transport without a network, for tests about time.
type wire func(*http.Request) (*http.Response, error)

func (f wire) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}
