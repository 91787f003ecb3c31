package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// policy decides how often, and after which waits, a call is repeated.
type policy struct {
	tries      int
	base, most time.Duration
}

// bound returns the upper limit of the backoff after this many tries: base, twice base, four times base ..., at
// most most.
func (p policy) bound(made int) time.Duration {
	bound := p.base
	for range made - 1 {
		if bound >= p.most/2 {
			return p.most
		}
		bound *= 2
	}
	return min(bound, p.most)
}

// again reports whether a call that failed with e should be repeated. If a repeat is not safe, the call must
// surely not have been carried out.
func (p policy) again(e *Error, made int, safe bool) bool {
	return made < p.tries && passing(e) && e.RetryAfter <= p.most && (safe || !mayHaveHappened(e))
}

// passing reports whether an error may be temporary.
func passing(e *Error) bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
		_, distrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
		return !distrusted
	}
	return false
}

// mayHaveHappened reports whether a call that failed with e may have been carried out. A redirect, a 4xx, a 501
// and a 503 mean that it was not: a server that answers 501 does not know the method.
func mayHaveHappened(e *Error) bool {
	if e.Status == 0 {
		return !errors.Is(e.Err, errUnsent)
	}
	switch e.Status {
	case http.StatusNotImplemented, http.StatusServiceUnavailable:
		return false
	}
	return e.Status < 300 || e.Status >= 500
}

var (
	errUnsent = errors.New("nothing was sent")
	errSilent = errors.New("the server was silent for too long")
)

// unsent marks the error of a request that was never sent.
type unsent struct{ error }

func (u unsent) Unwrap() error        { return u.error }
func (u unsent) Is(target error) bool { return target == errUnsent }

// dialFailed reports whether no usable connection was made.
func dialFailed(err error) bool {
	if _, distrusted := errors.AsType[*tls.CertificateVerificationError](err); distrusted {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// draw returns a full jitter: a random wait below bound.
func draw(bound time.Duration) time.Duration { return rand.N(max(bound, 1)) }

// sleep waits, or returns the context's error if the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rest sleeps if ctx's deadline leaves time for that, and reports whether it did.
func rest(ctx context.Context, d time.Duration) bool {
	left, bounded := timeLeft(ctx)
	return (!bounded || d < left) && sleep(ctx, d) == nil
}

// retryAfter reads the header in both forms: whole seconds, and a date, which it compares with the answer's own
// Date. It returns 0 if the header is absent or invalid.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	then, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(then.Sub(now), 0)
}
