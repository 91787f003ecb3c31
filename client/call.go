package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// The limits of the bytes that the client reads: of an answer, and of a refusal's body.
const (
	maxAnswer  = 16 << 20
	maxRefusal = 1 << 20
)

// call describes a request, which may be sent more than once.
type call struct {
	verb         string // the operation's name in errors
	method, path string
	query        url.Values
	header       http.Header
	body         []byte        // JSON; nil = none
	key          string        // the Idempotency-Key, for the error
	about        string        // the job's id, for the error
	changes      bool          // the call changes something, so its outcome may be unknown
	once         bool          // a repeat may do the change twice
	hold         time.Duration // how long the server is asked to hold the answer
	also         int           // an error status that counts as an answer
	stream       bool          // the caller reads the answer as it arrives
}

// answer is a complete answer of the server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes a call and repeats it according to the policy. Its errors are *Error, wrapped with the verb.
func (c *Client) do(ctx context.Context, k call) (answer, error) {
	resp, err := c.open(ctx, k)
	if err != nil {
		return answer{}, err
	}
	return k.read(resp)
}

// read returns an answer that is in memory.
func (k *call) read(resp *http.Response) (a answer, err error) {
	defer resp.Body.Close()
	a = answer{status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(resp.Body)
	if err != nil { // cannot happen: open has read all of it
		return answer{}, fmt.Errorf("%s: %w", k.verb, err)
	}
	return a, nil
}

// open is do for an answer that may be a stream, see try. Every other answer is in memory when open returns.
func (c *Client) open(ctx context.Context, k call) (*http.Response, error) {
	return repeat(ctx, c, &k, func() (*http.Response, *Error) { return c.try(ctx, &k) })
}

// repeat calls try until it succeeds, or until the policy or ctx allows no further try. Its errors are *Error,
// wrapped with the verb.
func repeat[T any](ctx context.Context, c *Client, k *call, try func() (T, *Error)) (none T, err error) {
	if c.wrong != nil {
		return none, c.wrong
	}
	unknown, jobID := false, k.about
	for made := 1; ; made++ {
		got, e := try()
		if e == nil {
			return got, nil
		}
		// A refusal of this try does not undo a change that an earlier try may have made.
		unknown = unknown || e.Unknown || k.changes && mayHaveHappened(e)
		if e.JobID != "" {
			jobID = e.JobID
		}
		e.Unknown, e.JobID, e.Key = unknown, jobID, k.key
		if ctx.Err() != nil || !c.policy.again(e, made, !k.once) {
			return none, fmt.Errorf("%s: %w", k.verb, e)
		}
		wait := e.RetryAfter + c.draw(c.policy.bound(made))
		if left, bounded := timeLeft(ctx); bounded && wait >= left {
			return none, fmt.Errorf("%s: %w", k.verb, e) // this error says more than the context's
		}
		if err := sleep(ctx, wait); err != nil {
			e.Err = errors.Join(err, e.Err)
			return none, fmt.Errorf("%s: %w", k.verb, e)
		}
	}
}

// try makes one request. The caller must read and close a stream's body, see watched.
func (c *Client) try(ctx context.Context, k *call) (*http.Response, *Error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Err: unsent{err}}
	}
	own, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(c.timeout+k.hold, func() { cancel(errSilent) })
	end := func() { silence.Stop(); cancel(nil) }

	var connected atomic.Bool
	own = httptrace.WithClientTrace(own,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := c.request(own, k)
	if err != nil {
		end()
		return nil, &Error{Err: unsent{err}}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		err = c.reason(ctx, own, err)
		if dialFailed(err) || c.traced() && !connected.Load() {
			err = unsent{err}
		}
		end()
		return nil, &Error{Err: err}
	}
	good := resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified || resp.StatusCode == k.also
	if good && k.stream && resp.StatusCode != http.StatusNotModified {
		why := func(err error) error { return c.reason(ctx, own, err) }
		resp.Body = &watched{ReadCloser: resp.Body, silence: silence, bound: c.timeout, end: end, why: why}
		silence.Stop()
		return resp, nil
	}
	defer end()
	defer resp.Body.Close()
	most := int64(maxRefusal)
	if good {
		most = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil && good:
		return nil, &Error{Err: fmt.Errorf("the answer broke off: %w", c.reason(ctx, own, err))}
	case int64(len(body)) > most && good:
		return nil, &Error{Status: resp.StatusCode, Err: fmt.Errorf("the answer has more than %d bytes", most)}
	case !good:
		return nil, refusal(resp, body)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// fetch makes a call whose answer is JSON.
func fetch[T any](ctx context.Context, c *Client, k call) (v T, a answer, err error) {
	if a, err = c.do(ctx, k); err != nil {
		return v, a, err
	}
	return v, a, understand(a, &k, &v)
}

// understand decodes an answer's JSON into v.
func understand(a answer, k *call, v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		e := &Error{Status: a.status, TraceID: a.header.Get("X-Trace-Id"), Key: k.key, Unknown: k.changes}
		e.Err = fmt.Errorf("the answer is not understood: %w", err)
		return fmt.Errorf("%s: %w", k.verb, e)
	}
	return nil
}

// present returns nil for a JSON null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (c *Client) request(ctx context.Context, k *call) (*http.Request, error) {
	u := c.base.JoinPath(k.path)
	u.RawQuery = k.query.Encode()
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	if k.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if k.key != "" {
		req.Header.Set("Idempotency-Key", k.key)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("User-Agent", c.agent)
	return req, nil
}

// reason returns the error that ended a request. The caller's context takes precedence over the client's own
// timeout, and that over the connection's error.
func (c *Client) reason(caller, own context.Context, err error) error {
	switch {
	case caller.Err() != nil:
		return caller.Err()
	case errors.Is(context.Cause(own), errSilent):
		return errSilent
	}
	return err
}

// traced reports whether the transport reports its connections. Only then does a missing report mean that there
// was no connection.
func (c *Client) traced() bool {
	if c.http.Transport == nil {
		return true
	}
	_, ok := c.http.Transport.(*http.Transport)
	return ok
}

// watched is a body that limits the server's silence while a read waits. The time between two reads does not
// count.
type watched struct {
	io.ReadCloser
	silence *time.Timer
	bound   time.Duration
	end     func()
	why     func(error) error
}

func (w *watched) Read(p []byte) (int, error) {
	w.silence.Reset(w.bound)
	n, err := w.ReadCloser.Read(p)
	w.silence.Stop()
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		err = w.why(err)
	}
	return n, err
}

func (w *watched) Close() error {
	defer w.end()
	return w.ReadCloser.Close()
}
