package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

const (
	keyHeader = "Idempotency-Key"
	keyRule   = "must be 1 to 255 visible ASCII characters"
)

// keyFrom is the request's Idempotency-Key; "" = none.
func keyFrom(h http.Header) (string, error) {
	values, sent := h[keyHeader]
	switch {
	case !sent:
		return "", nil
	case len(values) > 1:
		return "", invalid(keyHeader, "is there twice")
	}
	if err := checkKey(values[0]); err != nil {
		return "", invalid(keyHeader, err.Error())
	}
	return values[0], nil
}

func checkKey(key string) error {
	if len(key) < 1 || len(key) > 255 || !visible(key) {
		return reason(keyRule)
	}
	return nil
}

// hexHash is 32 hexadecimal digits of the SHA-256 of its parts: with their lengths, so that no two lists of parts read
// alike.
func hexHash(parts ...[]byte) string {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ownKey is what a caller's key is known by inside: one caller's key says nothing about another's.
func ownKey(owner, key string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// namespace is within which a caller's keys are one of a kind: callers without an API key are told apart by their
// addresses, or one could learn the id of another's job.
func namespace(c *job.Caller) string {
	if anonymous(c) {
		return "address " + c.Address.String()
	}
	return c.Owner()
}

// idempotency is the key of a submission and what was asked for under it. What counts is what the caller said, not what
// it came to: a runAt that has passed since is the same runAt. White space in the payload does not count.
func idempotency(caller *job.Caller, s *job.Submission, asked *asked) job.Idempotency {
	payload := jsontext.Value(bytes.Clone(asked.payload))
	if payload != nil {
		_ = payload.Compact() // it was read as JSON: it is
	}
	due := ""
	if asked.delay > 0 {
		due = asked.delay.String()
	}
	if !asked.runAt.IsZero() {
		due = asked.runAt.Format(time.RFC3339Nano)
	}
	return job.Idempotency{
		Key: ownKey(namespace(caller), asked.key),
		Body: hexHash([]byte(s.Tier), []byte(s.Type), payload, []byte(strconv.Itoa(asked.maxRetries)), []byte(due),
			[]byte(asked.callback)),
	}
}
