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

// keyFrom returns the request's Idempotency-Key; "" = none.
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

// hexHash returns the first 32 hexadecimal digits of the SHA-256 of its parts. Each part is hashed with its length,
// so that two different lists of parts never give the same text.
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

// ownKey returns the internal name of a caller's Idempotency-Key. It contains the owner, so that the same key of
// two callers gives two names.
func ownKey(owner, key string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// namespace returns the scope in which a caller's Idempotency-Keys are unique. Callers without an API key are told
// apart by their addresses; otherwise a caller could learn the id of another caller's job.
func namespace(c *job.Caller) string {
	if anonymous(c) {
		return "address " + c.Address.String()
	}
	return c.Owner()
}

// idempotency returns the key of a submission and a hash of the request. With a line or a unique key the submit goes to
// its partition, so an Idempotency-Key counts for that line or unique key alone, and its name begins as the hash that
// chooses the partition.
//
// The hash covers what the caller sent and
// not the resulting job: a runAt counts as the same runAt after it has passed. White space in the payload does not
// count.
func idempotency(caller *job.Caller, s *job.Submission, asked *asked) job.Idempotency {
	payload := jsontext.Value(bytes.Clone(asked.payload))
	if payload != nil {
		_ = payload.Compact() // cannot fail: the payload was read as JSON
	}
	due := ""
	if asked.delay > 0 {
		due = asked.delay.String()
	}
	if !asked.runAt.IsZero() {
		due = asked.runAt.Format(time.RFC3339Nano)
	}
	parts := [][]byte{[]byte(s.Tier), []byte(s.Type), payload, []byte(strconv.Itoa(asked.maxRetries)), []byte(due),
		[]byte(asked.callback)}
	if asked.expiresIn > 0 {
		parts = append(parts, []byte("expires in "+asked.expiresIn.String()))
	}
	if !asked.expiresAt.IsZero() {
		parts = append(parts, []byte("expires at "+asked.expiresAt.Format(time.RFC3339Nano)))
	}
	if s.Batch != "" {
		parts = append(parts, []byte("batch "+s.Batch))
	}
	home := s.Home()
	if home == "" {
		return job.Idempotency{Key: ownKey(namespace(caller), asked.key), Body: hexHash(parts...)}
	}
	parts = append(parts, []byte(s.Unique), []byte(s.UniqueOn), []byte(s.MaxWait.String()))
	if s.Line != "" {
		parts = append(parts, []byte(s.Line))
	}
	name := ownKey(namespace(caller), home+"\x00"+asked.key)
	return job.Idempotency{Key: home[:job.HomeDigits] + name[job.HomeDigits:], Body: hexHash(parts...)}
}
