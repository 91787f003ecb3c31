package queue

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// Two kinds of texts are sealed: the cursors of an owner's lists, and the leases of workers outside tierq's processes.
//
// A list of one owner's jobs can end a page at a job of another owner, so its cursor would reveal that job's id,
// which is secret, and its arrival. Cursors of such lists are therefore sealed for their owner, with a key that
// all processes read from Redis. If Redis loses the key, the first process that looks stores it again. A process that
// has just started knows no key and makes one. If others knew another key, they store that one beside it when they look
// again, and from then on every process opens what was sealed with either.

const (
	sealField   = "cursorKey"       // of system:config
	sealEarlier = "cursorKeyBefore" // the key that processes knew when another took its place
	sealBytes   = 32
)

// proposedKey returns the key to store if Redis has none: the one that this process knows, else a random one.
func (s *shared) proposedKey() string {
	if last := s.sealing.Load(); last != nil {
		return last.stored
	}
	return NewSealKey()
}

// NewSealKey makes a key for SealWith.
func NewSealKey() string {
	key := make([]byte, sealBytes)
	_, _ = rand.Read(key) // never fails, says crypto/rand
	return hex.EncodeToString(key)
}

// SealWith makes the process propose a key to a Redis that has none: one that it kept from an earlier life, so that
// what was sealed then still opens.
func (q *Queue) SealWith(key string) { q.sealWith(key, "") }

// sealWith uses the stored keys from now on. If the stored text is not a key, the last key stays. took says that the
// key took the place of one that this process knew.
func (s *shared) sealWith(stored, earlier string) (took bool) {
	now := &seal{stored: stored, earlier: earlier, aead: cipherOf(stored)}
	if now.aead == nil {
		return false
	}
	last := s.sealing.Load()
	switch {
	case last != nil && last.stored == stored && (earlier == "" || earlier == last.earlier):
		return false
	case last != nil && last.stored != stored:
		took, now.earlier = true, last.stored
	}
	now.before = cipherOf(now.earlier)
	s.sealing.Store(now)
	return took
}

// cipherOf returns nil for a text that is not a key.
func cipherOf(stored string) cipher.AEAD {
	key, err := hex.DecodeString(stored)
	if err != nil || len(key) != sealBytes {
		return nil
	}
	block, _ := aes.NewCipher(key) // the size is right, so neither of these fails
	aead, _ := cipher.NewGCM(block)
	return aead
}

type seal struct {
	stored, earlier string
	aead            cipher.AEAD
	before          cipher.AEAD // of earlier; nil = none
}

// sealed returns the present seal. CheckSetup reads its key once a second; before the first time, sealed reads the
// key itself and stores a new one if there is none.
func (v *View) sealed(ctx context.Context) (*seal, error) {
	if s := v.sealing.Load(); s != nil {
		return s, nil
	}
	if err := v.redis.Main.HSetNX(ctx, configKey, sealField, v.proposedKey()).Err(); err != nil {
		return nil, classify("list", err)
	}
	stored, err := v.redis.Main.HGetAll(ctx, configKey).Result()
	if err != nil {
		return nil, classify("list", err)
	}
	v.sealWith(stored[sealField], stored[sealEarlier])
	if s := v.sealing.Load(); s != nil {
		return s, nil
	}
	return nil, job.ErrUnavailable // the stored key was edited by hand
}

// close encrypts a cursor. Only open with the same owner decrypts it.
func (s *seal) close(cursor, owner string) string {
	nonce := make([]byte, s.aead.NonceSize(), 128)
	_, _ = rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(cursor), []byte(owner)))
}

// open decrypts a cursor that close made for this owner; the error for any other text is job.ErrBadCursor.
func (s *seal) open(text, owner string) (string, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return "", job.ErrBadCursor
	}
	n := s.aead.NonceSize()
	cursor, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(owner))
	if err != nil && s.before != nil {
		cursor, err = s.before.Open(nil, raw[:n], raw[n:], []byte(owner))
	}
	if err != nil {
		return "", job.ErrBadCursor
	}
	return string(cursor), nil
}

// leaseMark begins a sealed lease. An owner's leases are sealed apart from its cursors.
const leaseMark, leaseOwner = "v1.", "lease "

// Seal makes a lease that only Open with the same owner reads.
func (v *View) Seal(ctx context.Context, lease, owner string) (string, error) {
	s, err := v.sealed(ctx)
	if err != nil {
		return "", err
	}
	return leaseMark + s.close(lease, leaseOwner+owner), nil
}

// Open reads a lease that Seal made for an owner. The error is job.ErrBadLease for a text that Seal cannot have made,
// and job.ErrLeaseLost for a text that it did not make for this owner.
func (v *View) Open(ctx context.Context, sealed, owner string) (string, error) {
	s, err := v.sealed(ctx)
	if err != nil {
		return "", err
	}
	text, marked := strings.CutPrefix(sealed, leaseMark)
	if _, err := base64.RawURLEncoding.Strict().DecodeString(text); err != nil || !marked {
		return "", job.ErrBadLease
	}
	lease, err := s.open(text, leaseOwner+owner)
	if err != nil {
		return "", job.ErrLeaseLost
	}
	return lease, nil
}
