package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/tierq/tierq/internal/job"
)

// RefusedError is a call that the guard does not let out. A repeat would be refused too, so it comes as job.Permanent.
type RefusedError struct{ Host, Reason string }

func (e *RefusedError) Error() string {
	if e.Host == "" {
		return "the call is refused: " + e.Reason
	}
	return "the call to " + e.Host + " is refused: " + e.Reason
}

// CallError is a call without an answer, or without a whole one. The host may have received the call. The text leaves out what a network
// error would tell: the URL with its query, and addresses.
type CallError struct {
	Host, Reason string
	err          error
}

func (e *CallError) Error() string { return "call " + e.Host + ": " + e.Reason }

// Unwrap is what the network said.
func (e *CallError) Unwrap() error { return e.err }

// failure turns what the transport said into a RefusedError or a CallError.
func failure(host string, err error) error {
	if errors.Is(err, errAddress) || errors.Is(err, errPort) {
		reason := errAddress
		if errors.Is(err, errPort) {
			reason = errPort
		}
		return job.Permanent(&RefusedError{Host: host, Reason: "it " + reason.Error()})
	}
	return &CallError{Host: host, Reason: reason(err), err: err}
}

func reason(err error) string {
	var lookup *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "no such host"
	case errors.As(err, &lookup):
		return "the name could not be looked up"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no whole answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	case errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke"
	}
	return "the call failed"
}
