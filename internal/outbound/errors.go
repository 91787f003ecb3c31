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

// RefusedError means that the guard refused a call. A repeat would be refused too, so the error comes wrapped in
// handler.Permanent.
type RefusedError struct{ Host, Reason string }

func (e *RefusedError) Error() string {
	if e.Host == "" {
		return "the call is refused: " + e.Reason
	}
	return "the call to " + e.Host + " is refused: " + e.Reason
}

// CallError means that a call got no answer, or only a part of one. The host may have received the call. The text
// hides parts of the network's error: the URL with its query, and addresses.
type CallError struct {
	Host, Reason string
	err          error
}

func (e *CallError) Error() string { return "call " + e.Host + ": " + e.Reason }

// Unwrap returns the network's error.
func (e *CallError) Unwrap() error { return e.err }

// noAddress is the reason that a caller reads both for a name that does not exist and for a name whose addresses
// the guard refuses.
const noAddress = "it has no address that is called"

// failure turns a transport's error into a RefusedError or a CallError, and logs the details that the caller must
// not read.
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
		if net.ParseIP(host) != nil { // the caller wrote the address, so the reason tells nothing new
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

// addressOf returns the address that the guard refused; "" if the error has none.
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
