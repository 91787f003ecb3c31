// Package client submits jobs to a tierq server and follows them. It needs nothing but the standard library, and two
// lines to a first job:
//
//	c := client.New("http://localhost:8080")
//	id, err := c.Submit(ctx, client.Paid, "SEND_EMAIL",
//		map[string]any{"to": "ada@example.com", "subject": "Hello", "body": "Hi Ada"})
//
// What a call promises:
//
//   - A call that returned an error was refused or not answered. Of a submit and of any other change it says which:
//     errors.Is(err, ErrOutcomeUnknown) means that it may or may not have been carried out; any other error means
//     that it was not.
//   - Calls are tried again after a lost reply, a broken connection, 429, 502, 503 and 504, after an exponential
//     backoff with full jitter and not before the server's Retry-After, a bounded number of times. Every submit carries
//     an Idempotency-Key, so that trying again never makes two jobs of one. SetTier, CreateTier and RequeueDead, for
//     which that is not so, are tried again only if they were surely not carried out. Everything else the server
//     refuses is final at once.
//   - A context bounds every call, its waits included. Without a deadline of its own a call still ends: each try has
//     one.
//
// Jobs run at least once, and a submit by a program that crashed and does not know whether it submitted is a new
// submit: give such a job an IdempotencyKey derived from what it is for, such as the number of an order.
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

// Client talks to one tierq server, or to several behind one address. It is safe for concurrent use and keeps
// connections open between calls: make one and share it.
type Client struct {
	base  *url.URL
	wrong error // what is wrong with the address or an option: the error of every call
	http  *http.Client

	token, agent string
	timeout      time.Duration // of one try
	policy       policy
	draw         func(bound time.Duration) time.Duration // a random wait below bound
}

// Option changes how a Client works.
type Option func(*Client)

// New returns a client for the server at baseURL, such as "http://localhost:8080"; a path in it is put in front of
// every route. New never fails: what is wrong with its arguments is the error of every call.
func New(baseURL string, opts ...Option) *Client {
	c := &Client{
		http: &http.Client{Transport: transport()}, agent: "tierq-go", timeout: 30 * time.Second,
		policy: policy{tries: 6, base: 250 * time.Millisecond, most: time.Minute}, draw: draw,
	}
	c.base, c.wrong = parseBase(baseURL)
	for _, o := range opts {
		o(c)
	}
	// A redirect would send a job, and its token, somewhere else than where it was meant to go.
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

// WithHTTPClient sends through h, for its own transport, proxy or TLS. Redirects are not followed, whatever it says.
// Its Timeout, if it has one, also cuts long polls and streams.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = cmp.Or(h, c.http) }
}

// WithUserAgent names the program that calls.
func WithUserAgent(name string) Option {
	return func(c *Client) {
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			c.refuse("the user agent is not ASCII")
		}
		c.agent = name
	}
}

// WithTries bounds how often a call is tried; 1 = never again. The default is 6, which is some seconds of a server that
// is away.
func WithTries(n int) Option {
	return func(c *Client) { c.policy.tries = max(n, 1) }
}

// WithBackoff sets the waits between tries: a random part of base, twice base, four times base ..., never above most. A
// Retry-After above most is not waited for: the call ends with the error that carries it. The defaults are 250 ms and
// one minute.
func WithBackoff(base, most time.Duration) Option {
	return func(c *Client) {
		c.policy.base, c.policy.most = max(base, time.Millisecond), max(base, most, time.Millisecond)
	}
}

// WithTimeout bounds each try (the default is 30 s), and the silence of a server whose answer has begun. Long polls get
// it on top of what they ask the server to wait.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = max(d, time.Millisecond) }
}

// Close drops the connections that nobody uses at the moment. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) refuse(why string) { c.wrong = cmp.Or(c.wrong, errors.New("client: "+why)) }

func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// the parser's error would show it, with a password in it
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

// transport is the default one with room for many connections to the one server it talks to.
func transport() http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := shared.Clone()
	own.MaxIdleConns, own.MaxIdleConnsPerHost = 64, 64
	return own
}

// visible reports whether text may stand in a header as it is: visible ASCII, no spaces.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// timeLeft says how long a context leaves, and whether it bounds at all.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, bounded := ctx.Deadline()
	return time.Until(deadline), bounded
}
