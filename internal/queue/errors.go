package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// refusals are the replies with which a server says that it did not execute a call, because of the server's own
// state and not because of the call.
var refusals = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED ", "ASK ", "UNBLOCKED",
	noMemory, "MISCONF", "BUSY", "NOAUTH", "WRONGPASS", "NOPERM",
	"ERR max number of clients reached",
	"EXECABORT", // of a transaction: a part of it got one of these replies
}

// noMemory begins the reply of a server that has reached its maxmemory.
const noMemory = "OOM"

// denials are the refusals that last until the configuration is changed.
var denials = map[string]bool{"NOAUTH": true, "WRONGPASS": true, "NOPERM": true}

// classify wraps an error of a call that is safe to send twice. job.ErrUnavailable means that the call was
// certainly not executed, job.ErrAmbiguous that the call was sent and its reply never came. A cancelled context
// and a script's own error are neither.
func classify(what string, err error) error {
	var reply redis.Error
	var dial *net.OpError
	err = bare(err)
	switch {
	// the error is cancelled or already classified
	case errors.Is(err, context.Canceled), errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous):
		return fmt.Errorf("%s: %w", what, err)
	case untrusted(err):
		return fmt.Errorf("%s: %w: %w: %w", what, job.ErrUnavailable, job.ErrUntrusted, err)
	case errors.As(err, &reply):
		for _, r := range refusals {
			if strings.HasPrefix(reply.Error(), r) {
				if denials[r] {
					return fmt.Errorf("%s: %w: %w: %w", what, job.ErrUnavailable, job.ErrDenied, reply)
				}
				if r == noMemory {
					return fmt.Errorf("%s: %w: %w: %w", what, job.ErrUnavailable, job.ErrNoMemory, reply)
				}
				return fmt.Errorf("%s: %w: %w", what, job.ErrUnavailable, reply)
			}
		}
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed),
		errors.As(err, &dial) && dial.Op == "dial", strings.Contains(err.Error(), "redis: cluster has no nodes"):
		return fmt.Errorf("%s: %w: %w", what, job.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w", what, job.ErrAmbiguous, err)
}

// untrusted says whether the connection was closed because of the server's certificate, or because the server does
// not speak TLS.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &notTLS)
}
