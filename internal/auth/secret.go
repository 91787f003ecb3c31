// Package auth knows who calls: the API keys, what a caller may still ask for, and the log of what operators changed.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"strings"
)

// A key's text is tq_<id>_<secret>.
const (
	prefix     = "tq_"
	idLen      = 16 // of 10 random bytes
	secretLen  = 43 // of 32 random bytes
	textLen    = len(prefix) + idLen + 1 + secretLen
	idAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

var (
	idCoding     = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)
	secretCoding = base64.RawURLEncoding.Strict() // one text for each secret
)

// Mint makes a new key: its id, its secret, and the text of both.
func Mint() (id, secret, text string) {
	var bytes [10 + 32]byte
	_, _ = rand.Read(bytes[:]) // never fails, says crypto/rand
	id, secret = idCoding.EncodeToString(bytes[:10]), secretCoding.EncodeToString(bytes[10:])
	return id, secret, prefix + id + "_" + secret
}

// mintSecret makes another secret for a key that is there.
func mintSecret(id string) (secret, text string) {
	_, secret, _ = Mint()
	return secret, prefix + id + "_" + secret
}

// Parse takes a key's text apart. Whatever deviates from what Mint writes, be it one bit, is no key.
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
	// The decoder passes over line breaks.
	if strings.ContainsAny(secret, "\r\n") {
		return "", "", false
	}
	if n, err := secretCoding.Decode(make([]byte, 32), []byte(secret)); n != 32 || err != nil {
		return "", "", false
	}
	return id, secret, true
}

// Hash is what is kept of a secret. One round of SHA-256 is enough: nobody guesses 256 random bits, however fast he
// tries.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// bearer is the text after "Bearer " of the only Authorization header.
func bearer(authorization []string) (text string, ok bool) {
	const scheme = "bearer "
	if len(authorization) != 1 || len(authorization[0]) < len(scheme) ||
		!strings.EqualFold(authorization[0][:len(scheme)], scheme) {
		return "", false
	}
	return authorization[0][len(scheme):], true
}
