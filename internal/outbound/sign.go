package outbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// ParseSecrets reads TIERQ_WEBHOOK_SECRET, which all receivers share: one secret, or several separated by spaces.
// While a secret is being replaced, messages carry a signature by the new one and one by the old one.
func ParseSecrets(text string) ([][]byte, error) {
	var all [][]byte
	for _, s := range strings.Fields(text) {
		secret, err := ParseSecret(s)
		if err != nil {
			return nil, err
		}
		all = append(all, secret)
	}
	return all, nil
}

// ParseSecret reads a secret in the form of Standard Webhooks: whsec_ and the base64 of 24 to 64 random bytes. The
// error does not contain the secret.
func ParseSecret(s string) ([]byte, error) {
	text, prefixed := strings.CutPrefix(s, "whsec_")
	secret, err := base64.StdEncoding.DecodeString(text)
	if !prefixed || err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, errors.New("a webhook secret is whsec_ and the base64 of 24 to 64 bytes")
	}
	return secret, nil
}

// Sign returns a message's signature: v1 and the base64 of HMAC-SHA256 over the id, the time in Unix seconds and
// the body, joined by full stops. The id must not contain a full stop.
func Sign(secret []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(signed(id, at, body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signed returns the bytes of a message that its signature covers.
func signed(id string, at time.Time, body []byte) []byte {
	return append([]byte(id+"."+stamp(at)+"."), body...)
}

// stamp formats a message's time for its header.
func stamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
