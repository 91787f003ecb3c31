// Package client submits jobs to a tierq server and follows them. It uses only the standard library. A first job
// takes two lines:
//
//	c := client.New("http://localhost:8080")
//	id, err := c.Submit(ctx, client.Paid, "SEND_EMAIL",
//		map[string]any{"to": "ada@example.com", "subject": "Hello", "body": "Hi Ada"})
//
// Every call promises:
//
//   - A call that returns an error was refused or not answered. For a submit or another change, errors.Is(err,
//     ErrOutcomeUnknown) means that the server may or may not have carried it out; any other error means that the
//     server has not.
//   - The client repeats a call after a lost reply, a broken connection, 429, 502, 503 and 504. It waits for an
//     exponential backoff with full jitter and for the server's Retry-After, and it repeats a limited number of
//     times. Every submit carries an Idempotency-Key, so that a repeat never makes a second job. Calls that are
//     not safe to repeat, such as SetTier, CreateTier and RequeueDead, are repeated only if the server has surely
//     not carried them out. All other refusals are final.
//   - A context limits every call with all its waits. Without a deadline a call still ends, because each try has
//     a time limit.
//
// A program in which many goroutines submit at once makes its client with Gather: their submits travel together, and
// every call behaves as before.
//
// Jobs run at least once. A submit by a program that crashed, and does not know whether it submitted, is a new
// submit: give such a job an IdempotencyKey derived from its purpose, such as the number of an order.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls one tierq server, or several behind one address. It is safe for concurrent use and keeps
// connections open between calls, so one Client should be shared.
type Client struct {
	base  *url.URL
	wrong error // the error in the address or an option, which every call returns
	http  *http.Client

	token, agent string
	timeout      time.Duration // of each try
	policy       policy
	draw         func(bound time.Duration) time.Duration // returns a random wait below bound
	gather       *gatherer                               // nil = every submit is a request of its own
}

// Option changes the behaviour of a Client.
type Option func(*Client)

// New returns a client for the server at baseURL, such as "http://localhost:8080"; a path in it is put in front of
// every route. New does not fail: every call returns the error in its arguments.
func New(baseURL string, opts ...Option) *Client {
	c := &Client{
		http: &http.Client{Transport: transport()}, agent: "tierq-go", timeout: 30 * time.Second,
		policy: policy{tries: 6, base: 250 * time.Millisecond, most: time.Minute}, draw: draw,
	}
	c.base, c.wrong = parseBase(baseURL)
	for _, o := range opts {
		o(c)
	}
	// A redirect could send a job, and its token, to a wrong server.
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	return c
}

// WithToken authenticates with an API key ("tq_<id>_<secret>").
func WithToken(token string) Option {
	return func(c *Client) {
		if !visible(token) {
			c.refuse("the token is not visible ASCII")
		}
		c.token = token
	}
}

// WithHTTPClient sends requests through h, which sets the transport, proxy or TLS. Redirects are not followed,
// even if h follows them. A Timeout of h also cuts long polls and streams.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = cmp.Or(h, c.http) }
}

// WithUserAgent sets the User-Agent, which names the calling program.
func WithUserAgent(name string) Option {
	return func(c *Client) {
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			c.refuse("the user agent is not ASCII")
		}
		c.agent = name
	}
}

// WithTries limits how often a call is tried; 1 = no repeats. The default is 6, which lasts for some seconds of an
// outage.
func WithTries(n int) Option {
	return func(c *Client) { c.policy.tries = max(n, 1) }
}

// WithBackoff sets the waits between tries: a random part of base, twice base, four times base ..., never above
// most. The client does not wait for a Retry-After above most: the call ends with the error that carries it. The
// defaults are 250 ms and one minute.
func WithBackoff(base, most time.Duration) Option {
	return func(c *Client) {
		c.policy.base, c.policy.most = max(base, time.Millisecond), max(base, most, time.Millisecond)
	}
}

// WithTimeout limits each try (the default is 30 s), and the silence of a server that has begun its answer. A long
// poll may take this long in addition to the time that it asks the server to wait.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = max(d, time.Millisecond) }
}

// Close closes the idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) refuse(why string) { c.wrong = cmp.Or(c.wrong, errors.New("client: "+why)) }

func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The parser's error would show the address, which may hold a password.
		return nil, errors.New("client: the address of the server is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("client: the address of the server must look like http://host:port, not %q", u.Redacted())
	case u.User != nil:
		return nil, errors.New("client: the address of the server must not hold a user or password: see WithToken")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("client: the address of the server must not hold a query or fragment")
	}
	return u, nil
}

// transport returns a copy of the default transport that keeps many connections to its one server.
func transport() http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := shared.Clone()
	own.MaxIdleConns, own.MaxIdleConnsPerHost = 64, 64
	return own
}

// visible reports whether text may be sent in a header unchanged: visible ASCII, no spaces.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// timeLeft returns the time until a context's deadline, and whether it has one.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, bounded := ctx.Deadline()
	return time.Until(deadline), bounded
}
