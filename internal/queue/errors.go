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

// refusals are the replies by which a server says that it did not execute a call and that this is its own trouble, not
// ours.
var refusals = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED ", "ASK ", "UNBLOCKED",
	noMemory, "MISCONF", "BUSY", "NOAUTH", "WRONGPASS", "NOPERM",
	"ERR max number of clients reached",
	"EXECABORT", // of a transaction: one of these was the answer to a part of it
}

// noMemory is the reply of a server whose maxmemory is reached.
const noMemory = "OOM"

// denials are those of the refusals that waiting does not mend.
var denials = map[string]bool{"NOAUTH": true, "WRONGPASS": true, "NOPERM": true}

// classify says what an error means for a call that is safe to send twice: job.ErrUnavailable, it was certainly not
// executed; job.ErrAmbiguous, it was sent and its answer never came. A cancelled context and a script's own error are
// neither.
func classify(what string, err error) error {
	var reply redis.Error
	var dial *net.OpError
	err = bare(err)
	switch {
	// it is classified already
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

// untrusted says whether a connection was given up for its certificate, or because what answers is no TLS.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &notTLS)
}
