// Package auth authenticates callers: it has the API keys and the sessions of browsers, charges requests to rates,
// and writes the log of what operators changed.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"strings"
)

// The text of a key is tq_<id>_<secret>.
const (
	prefix     = "tq_"
	idLen      = 16 // of 10 random bytes
	secretLen  = 43 // of 32 random bytes
	textLen    = len(prefix) + idLen + 1 + secretLen
	idAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

var (
	idCoding     = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)
	secretCoding = base64.RawURLEncoding.Strict() // strict: each secret has exactly one text
)

// Mint makes a new key: it returns the id, the secret, and the text of both.
func Mint() (id, secret, text string) {
	var bytes [10 + 32]byte
	_, _ = rand.Read(bytes[:]) // crypto/rand never fails
	id, secret = idCoding.EncodeToString(bytes[:10]), secretCoding.EncodeToString(bytes[10:])
	return id, secret, prefix + id + "_" + secret
}

// mintSecret makes another secret for an existing key.
func mintSecret(id string) (secret, text string) {
	_, secret, _ = Mint()
	return secret, prefix + id + "_" + secret
}

// Parse splits a key's text into id and secret. ok is false for every text that Mint could not have made.
func Parse(text string) (id, secret string, ok bool) {
	if len(text) != textLen || text[:len(prefix)] != prefix || text[len(prefix)+idLen] != '_' {
		return "", "", false
	}
	id, secret = text[len(prefix):len(prefix)+idLen], text[len(prefix)+idLen+1:]
	for i := range len(id) {
		if strings.IndexByte(idAlphabet, id[i]) < 0 {
			return "", "", false
		}
	}
	// The decoder ignores line breaks.
	if strings.ContainsAny(secret, "\r\n") {
		return "", "", false
	}
	if n, err := secretCoding.Decode(make([]byte, 32), []byte(secret)); n != 32 || err != nil {
		return "", "", false
	}
	return id, secret, true
}

// Hash returns the hash of a secret that is stored in its place. One round of SHA-256 is enough, because no attacker
// can guess 256 random bits, at any speed.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// bearer returns the text after "Bearer " in the only Authorization header. ok is false if there is not exactly
// one.
func bearer(authorization []string) (text string, ok bool) {
	const scheme = "bearer "
	if len(authorization) != 1 || len(authorization[0]) < len(scheme) ||
		!strings.EqualFold(authorization[0][:len(scheme)], scheme) {
		return "", false
	}
	return authorization[0][len(scheme):], true
}
