package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/tierq/tierq/internal/handler"
)

// RefusedError is a call that the guard does not let out. A repeat would be refused too, so the error comes as
// handler.Permanent.
type RefusedError struct{ Host, Reason string }

func (e *RefusedError) Error() string {
	if e.Host == "" {
		return "the call is refused: " + e.Reason
	}
	return "the call to " + e.Host + " is refused: " + e.Reason
}

// CallError is a call without an answer, or without a whole one. The host may have received the call. The text leaves
// out what a network error would tell: the URL with its query, and addresses.
type CallError struct {
	Host, Reason string
	err          error
}

func (e *CallError) Error() string { return "call " + e.Host + ": " + e.Reason }

// Unwrap is what the network said.
func (e *CallError) Unwrap() error { return e.err }

// noAddress is what a caller reads of a name, be it that there is no such name, or that it leads where nothing is
// called.
const noAddress = "it has no address that is called"

// failure turns what the transport said into a RefusedError or a CallError, and logs what the caller must not read in
// them.
func failure(ctx context.Context, host string, err error) error {
	var lookup *net.DNSError
	switch {
	case errors.Is(err, errPort):
		return handler.Permanent(&RefusedError{Host: host, Reason: "it " + errPort.Error()})
	case errors.Is(err, errAddress), errors.Is(err, errOwn):
		why := errAddress
		if errors.Is(err, errOwn) {
			why = errOwn
		}
		handler.Logger(ctx).WarnContext(ctx, "a call was refused", "why", "the host "+why.Error(), "address",
			addressOf(err))
		if net.ParseIP(host) != nil { // the caller wrote the address: there is nothing to learn
			return handler.Permanent(&RefusedError{Host: host, Reason: "it " + errAddress.Error()})
		}
		return &CallError{Host: host, Reason: noAddress, err: err}
	case errors.As(err, &lookup):
		why := "the name could not be looked up"
		if lookup.IsNotFound {
			why = "there is no such name"
		}
		handler.Logger(ctx).InfoContext(ctx, "a call was not made", "why", why)
		return &CallError{Host: host, Reason: noAddress, err: err}
	}
	return &CallError{Host: host, Reason: reason(err), err: err}
}

// addressOf is the address that was not called.
func addressOf(err error) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Addr != nil {
		return dial.Addr.String()
	}
	return ""
}

func reason(err error) string {
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no whole answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	case errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke"
	}
	return "the call failed"
}
