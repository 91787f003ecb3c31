package outbound

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// traceparent is W3C's header of a call: the running span if there is one, else the job's trace with a new span.
func (c *Client) traceparent(ctx context.Context, id string) string {
	if c.opt.Span != nil {
		if trace, span, ok := c.opt.Span(ctx); ok {
			return "00-" + trace + "-" + span + "-01"
		}
	}
	return "00-" + traceOf(id) + "-" + newSpan() + "-01"
}

// traceOf is a job's trace id as 32 hexadecimal digits: itself if it is that already, else the first half of its hash,
// so that all calls of one trace share it; a new one if there is none.
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

// newSpan is random, not secret, and never zero.
func newSpan() string {
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	return hex.EncodeToString(span[:])
}

// isTrace says whether a trace id is fit to be sent as it is.
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
