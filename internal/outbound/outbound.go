// Package outbound holds the one HTTP client that calls URLs from users: webhooks, callbacks, the endpoints of
// forwarded documents.
//
// A user's URL must not make this server call its own network. So the client calls only ports 80 and 443 of public
// addresses. It checks the resolved address immediately before it connects, so that a name cannot change its
// address between two lookups. It uses no proxy, follows no redirect, and limits an answer's time, headers and
// body. Options.Allow adds the addresses that an operator wants to allow. Messages are signed according to
// Standard Webhooks.
package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// The limits of a call, in addition to its total time.
const (
	dialTimeout = 5 * time.Second
	maxHeaders  = 32 << 10 // bytes of an answer's headers
	idleTimeout = 30 * time.Second
)

// Options configure a Client. The zero value calls public addresses only and signs nothing.
type Options struct {
	Allow     []netip.Prefix // called though not public, on any port (TIERQ_EGRESS_ALLOW)
	Timeout   time.Duration  // of a whole call, from the lookup to the last byte; 0 = 15 s
	MaxBody   int64          // the most bytes read of an answer's body; 0 = 64 KiB
	UserAgent string         // "" = tierq
	Signer    Signer         // signs messages; the zero Signer signs none

	// Interfaces lists this machine's addresses, which are called only if Allow contains them; nil = the system's
	// list.
	Interfaces func() ([]net.Addr, error)
	// Span returns the ids of the span that a call belongs to, in hexadecimal digits. nil = calls are not traced, and
	// each gets a new span id.
	Span func(context.Context) (traceID, spanID string, ok bool)
}

// Request is a call. The headers that the client sets itself (webhook-*, traceparent, X-Trace-Id, User-Agent)
// replace those in Header.
type Request struct {
	Method    string
	URL       string
	Header    http.Header
	Body      []byte
	Timeout   time.Duration // of the whole call; 0 = the client's default
	MessageID string        // makes the call a Standard Webhooks message with this id, the same at each repeat; "" = none
	TraceID   string        // of the job; "" = none
	Owner     string        // of the job, whose keys sign a message; "" = none
	MaxBody   int64         // the most bytes read of the answer's body; 0 = the client's default
}

// Response is an answer, whatever its status.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool // the body was longer than what is read of it
}

// Client makes guarded calls. It is safe for concurrent use.
type Client struct {
	opt    Options
	guard  guard
	dialer *net.Dialer
	http   *http.Client
}

// New makes a Client. The caller closes it after the last call has ended.
func New(opt Options) *Client {
	if opt.Timeout <= 0 {
		opt.Timeout = 15 * time.Second
	}
	if opt.MaxBody <= 0 {
		opt.MaxBody = 64 << 10
	}
	if opt.UserAgent == "" {
		opt.UserAgent = "tierq"
	}
	c := &Client{opt: opt, guard: newGuard(opt.Allow)}
	if opt.Interfaces != nil {
		c.guard.interfaces = opt.Interfaces
	}
	c.dialer = &net.Dialer{Timeout: dialTimeout, ControlContext: c.guard.control}
	c.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // with a proxy the guard would see only the proxy's address
			DialContext:            c.dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // MaxBody limits the bytes as they were sent
			MaxResponseHeaderBytes: maxHeaders,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        idleTimeout,
		},
	}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do makes the call and returns any answer as a Response, also a redirect or a 500. Its errors are:
//
//   - a *RefusedError in a handler.Permanent, if the guard refuses something written in the URL;
//   - the context's cause, if the context ended;
//   - a *CallError in all other cases, in which a repeat may succeed.
//
// The texts name the host, never the URL. A refused host name and an unknown host name get the same text and the
// same number of tries. Otherwise a submitter could learn which names an internal network has. The job's log says
// which of the two it was.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	u, err := c.read(r.URL)
	if err != nil {
		return Response{}, handler.Permanent(&RefusedError{Reason: "the URL " + err.Error()})
	}
	timeout := c.opt.Timeout
	if r.Timeout > 0 {
		timeout = r.Timeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, handler.Permanent(fmt.Errorf("call %s: bad request: %w", u.Hostname(), err))
	}
	req.Header = c.header(limited, r)
	answer, err := c.exchange(req, cmp.Or(r.MaxBody, c.opt.MaxBody))
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return Response{}, fmt.Errorf("call %s: %w", u.Hostname(), context.Cause(ctx))
	}
	return Response{}, failure(ctx, u.Hostname(), err)
}

func (c *Client) header(ctx context.Context, r Request) http.Header {
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("User-Agent", c.opt.UserAgent)
	h.Set("Traceparent", c.traceparent(ctx, r.TraceID))
	if isTrace(r.TraceID) {
		h.Set("X-Trace-Id", r.TraceID)
	}
	if r.MessageID != "" {
		c.opt.Signer.sign(h, r.Owner, r.MessageID, time.Now(), r.Body)
	}
	return h
}

func (c *Client) exchange(req *http.Request, most int64) (Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return Response{}, err
	}
	answer := Response{Status: res.StatusCode, Header: res.Header, Body: body}
	if int64(len(body)) > most {
		answer.Body, answer.Truncated = body[:most], true
	}
	return answer, nil
}
