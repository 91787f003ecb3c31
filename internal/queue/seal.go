package queue

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"

	"github.com/tierq/tierq/internal/job"
)

// The list of one owner ends its pages wherever it stopped looking, and that may be at somebody else's job: its cursor
// would tell an id that is kept secret, and its arrival. So cursors of such lists are sealed, for that owner, with a
// key that all processes find in Redis. A Redis that lost the key ends the lists that are being read: their cursors are
// none any more.

const (
	sealField = "cursorKey" // of system:config
	sealBytes = 32
)

// newSealKey is stored where nobody has stored one.
func newSealKey() string {
	key := make([]byte, sealBytes)
	_, _ = rand.Read(key) // never fails, says crypto/rand
	return hex.EncodeToString(key)
}

// sealWith takes over the key that is stored; what is no key leaves the last one.
func (s *shared) sealWith(stored string) {
	if last := s.sealing.Load(); last != nil && last.stored == stored {
		return
	}
	key, err := hex.DecodeString(stored)
	if err != nil || len(key) != sealBytes {
		return
	}
	block, _ := aes.NewCipher(key) // the size is right, so neither of these fails
	aead, _ := cipher.NewGCM(block)
	s.sealing.Store(&seal{stored, aead})
}

type seal struct {
	stored string
	aead   cipher.AEAD
}

// sealed is the present key. It is read with the set-up, once a second; before that, here.
func (v *View) sealed(ctx context.Context) (*seal, error) {
	if s := v.sealing.Load(); s != nil {
		return s, nil
	}
	if err := v.redis.Main.HSetNX(ctx, configKey, sealField, newSealKey()).Err(); err != nil {
		return nil, classify("list", err)
	}
	stored, err := v.redis.Main.HGet(ctx, configKey, sealField).Result()
	if err != nil {
		return nil, classify("list", err)
	}
	v.sealWith(stored)
	if s := v.sealing.Load(); s != nil {
		return s, nil
	}
	return nil, job.ErrUnavailable // somebody edited it
}

// close hides a cursor from everybody, and from all but this owner what it opens.
func (s *seal) close(cursor, owner string) string {
	nonce := make([]byte, s.aead.NonceSize(), 128)
	_, _ = rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(cursor), []byte(owner)))
}

// open is the cursor that close hid; job.ErrBadCursor for any other text.
func (s *seal) open(text, owner string) (string, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return "", job.ErrBadCursor
	}
	n := s.aead.NonceSize()
	cursor, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(owner))
	if err != nil {
		return "", job.ErrBadCursor
	}
	return string(cursor), nil
}
