package outbound

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// traceparent returns the W3C header of a call: the running span if there is one, otherwise the job's trace with a
// new span.
func (c *Client) traceparent(ctx context.Context, id string) string {
	if c.opt.Span != nil {
		if trace, span, ok := c.opt.Span(ctx); ok {
			return "00-" + trace + "-" + span + "-01"
		}
	}
	return "00-" + traceOf(id) + "-" + newSpan() + "-01"
}

// traceOf returns a job's trace id as 32 hexadecimal digits. An id of that form stays; of any other id it takes
// the first half of the hash, so that all calls of one trace share it. Without an id it makes a new one.
func traceOf(id string) string {
	if id == "" {
		return newSpan() + newSpan()
	}
	if len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, "0") != "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// newSpan returns a span id that is random, not secret, and never zero.
func newSpan() string {
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	return hex.EncodeToString(span[:])
}

// isTrace reports whether a trace id may be sent unchanged.
func isTrace(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
