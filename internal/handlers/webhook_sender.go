package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Sender makes HTTP calls to URLs that users name.
type Sender interface {
	// CheckURL returns nil if the URL may be called, as far as that is known without a lookup. Its error continues a
	// sentence whose subject is the URL.
	CheckURL(url string) error
	// Do returns the answer, whatever its status. It follows no redirect. An error is handler.Permanent if a repeat
	// is pointless; its text names the host at most.
	Do(ctx context.Context, r Request) (Response, error)
}

// Request is a call for a Sender.
type Request struct {
	Method    string
	URL       string
	Header    http.Header
	Body      []byte
	Timeout   time.Duration // of the whole call; 0 = the sender's default
	MessageID string        // makes the call a signed message with this id, the same at each repeat; "" = none
	TraceID   string
	Owner     string // of the job, whose key signs a message; "" = none
	MaxBody   int64  // the most bytes read of the answer's body; 0 = the sender's default
}

// Response is a Sender's answer.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool // the body was longer than the sender reads
}

// outgoing holds the handlers that make HTTP calls.
type outgoing struct{ send Sender }

// RegisterOutgoing adds SEND_WEBHOOK, FORWARD_DOCUMENT and, for tierq itself, CALLBACK to r. It panics if r has
// one of them already.
func RegisterOutgoing(r *handler.Registry, s Sender) {
	o := outgoing{s}
	open := func(w Webhook) error { return o.open("payload.url", w.URL) }
	handler.Register(r, "SEND_WEBHOOK", o.webhook, handler.Checked(open))
	handler.Register(r, "FORWARD_DOCUMENT", o.forward, handler.Checked(func(f Forward) error {
		var wrong []error
		for i, e := range f.Endpoints {
			wrong = append(wrong, o.open(fmt.Sprintf("payload.endpoints[%d]", i), e))
		}
		return errors.Join(wrong...)
	}))
	handler.Register(r, job.CallbackType, o.callback, handler.Internal())
}

// open refuses, at submit, a URL that the sender would refuse at every attempt.
func (o outgoing) open(field, url string) error {
	if err := o.send.CheckURL(url); err != nil {
		return &handler.PayloadError{Field: field, Reason: err.Error()}
	}
	return nil
}

// post sends a message of the job's owner and judges the answer. It returns the answer too.
func (o outgoing) post(ctx context.Context, r Request) (Response, error) {
	run, _ := handler.Running(ctx)
	r.Owner = run.Owner
	answer, err := o.message(ctx, r)
	if err != nil {
		return answer, err
	}
	return answer, judged(hostOf(r.URL), answer, time.Now())
}

// message posts a message about the running job, and returns the answer, whatever its status.
func (o outgoing) message(ctx context.Context, r Request) (Response, error) {
	run, _ := handler.Running(ctx)
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Job-Attempt", strconv.Itoa(run.Attempt))
	r.Method, r.TraceID = http.MethodPost, run.TraceID
	return o.send.Do(ctx, r)
}

// judged returns nil for a delivered message, or the error that decides how the job continues:
//
//	2xx                delivered
//	408, 425, 5xx      tried again after the tier's backoff
//	429, 503           tried again at the time in Retry-After, if there is one
//	all others         permanent: 410 and other 4xx will not change, and redirects are not followed
func judged(host string, a Response, now time.Time) error {
	err := fmt.Errorf("%s answered %d", host, a.Status)
	switch {
	case a.Status >= 200 && a.Status <= 299:
		return nil
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		if wait, ok := asked(a.Header, now); ok {
			return handler.RetryAfter(wait, err)
		}
		return err
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly, a.Status >= 500:
		return err
	}
	return handler.Permanent(err)
}

// The limits of a Retry-After.
const (
	minAsked = time.Second
	maxAsked = time.Hour
)

// asked reads Retry-After, in seconds or as a date, and limits it to 1 s..1 h. It returns false if the header is
// absent or neither.
func asked(h http.Header, now time.Time) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), minAsked), maxAsked), true
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds > int64(maxAsked/time.Second) { // only digits, so the error means too large
		return maxAsked, true
	}
	return max(time.Duration(seconds)*time.Second, minAsked), true
}

// hostOf returns the host of a URL for error texts: the other parts may hold secrets.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the host"
	}
	return u.Hostname()
}
