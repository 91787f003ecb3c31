package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// SessionStore stores the hashes of sessions by the id of their key. Every error means that the store does not
// answer now.
type SessionStore interface {
	// AddSession stores a session until the given time. The store bounds the number of sessions per key.
	AddSession(ctx context.Context, keyID, hash string, until time.Time) error
	// Sessions returns for each hash when that session of the key ends; the zero time = there is no such session.
	Sessions(ctx context.Context, keyID string, hashes ...string) ([]time.Time, error)
	// EndSession ends these sessions. It ignores sessions that do not exist.
	EndSession(ctx context.Context, keyID string, hashes ...string) error
}

// SessionsOptions has what Sessions needs.
type SessionsOptions struct {
	Store    SessionStore
	Keyring  *Keyring
	Now      func() time.Time // the same clock as the Keyring's
	Instance func() string    // names this server among those on its host
}

// Sessions holds the logins of browsers. A session stands for its API key, which is looked up at every request, and
// for the secret that was used at login. It is safe for concurrent use.
type Sessions struct {
	opts SessionsOptions

	mu     sync.Mutex
	known  map[string]knownSession // by hash: sessions that the store has confirmed
	resume time.Time               // the store did not answer: no call before this time
}

// knownSession is the store's last answer about one session.
type knownSession struct {
	until time.Time // by SessionsOptions.Now
	asked time.Time // by this process' own clock
}

const (
	sessionTime    = 12 * time.Hour
	sessionPrefix  = "tierq_session_"
	sessionFresh   = time.Second            // how long the store's answer is reused
	sessionCall    = 400 * time.Millisecond // timeout of one call
	sessionRest    = time.Second            // how long the store is left alone after it did not answer
	sessionsKnown  = 10_000
	sessionTextLen = idLen + 1 + secretLen
)

// NewSessions makes Sessions. They hold nothing but the store's last answers.
func NewSessions(o SessionsOptions) *Sessions {
	return &Sessions{opts: o, known: map[string]knownSession{}}
}

// CookieName returns the name of the session cookie. The name differs for each server, because browsers send
// cookies to all ports of a host. With the prefix __Host- (secure) a browser accepts the cookie over TLS only, and
// from no other host of the domain.
func (s *Sessions) CookieName(secure bool) string {
	name := sessionPrefix + s.opts.Instance()
	if secure {
		return "__Host-" + name
	}
	return name
}

// Begin makes a session for the key with this text. It returns the session's text for the browser's cookie, and how
// long the session lasts. The error is job.ErrUnauthorized for a key that is not valid, or job.ErrUnavailable if
// the store fails.
func (s *Sessions) Begin(ctx context.Context, keyText string) (text string, lasts time.Duration, err error) {
	key, ok := s.opts.Keyring.Authenticate([]string{"Bearer " + keyText})
	if !ok {
		return "", 0, job.ErrUnauthorized
	}
	_, secret, _ := Parse(keyText)
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand never fails
	text = key.ID + "." + secretCoding.EncodeToString(random)
	hash := sessionHash(text, Hash(secret))
	if err := s.opts.Store.AddSession(ctx, key.ID, hash, s.opts.Now().Add(sessionTime)); err != nil {
		return "", 0, cannotSay(err)
	}
	return text, sessionTime, nil
}

// Authenticate returns the key of the session with this text. ok is false for a session that has ended, or whose
// key is not valid. While the store is away, Authenticate answers for the sessions that this process knows; for
// others it returns an error.
func (s *Sessions) Authenticate(ctx context.Context, text string) (key job.Key, ok bool, err error) {
	id, ok := parseSession(text)
	if !ok {
		return job.Key{}, false, nil
	}
	e, known := s.opts.Keyring.find(id)
	now := s.opts.Now()
	if !known || e.Dead(now) {
		return job.Key{}, false, nil
	}
	ok = false
	for _, hash := range sessionHashes(text, e, now) {
		if ok, err = s.lives(ctx, id, hash, now); ok || err != nil {
			break
		}
	}
	if !ok {
		return job.Key{}, false, err
	}
	e.use()
	return e.Key, true, nil
}

// End ends a session, in this process at once and in the others within two seconds. It does nothing for a text that
// is not a session. After an error the session may still be valid in other processes.
func (s *Sessions) End(ctx context.Context, text string) error {
	id, ok := parseSession(text)
	if !ok {
		return nil
	}
	e, known := s.opts.Keyring.find(id)
	if !known {
		return nil
	}
	hashes := sessionHashes(text, e, s.opts.Now())
	s.mu.Lock()
	for _, hash := range hashes {
		delete(s.known, hash)
	}
	s.mu.Unlock()
	if err := s.opts.Store.EndSession(ctx, id, hashes...); err != nil {
		return cannotSay(err)
	}
	return nil
}

// lives reports whether a hash is a session of the key, by the store's answer from now or from the last second.
func (s *Sessions) lives(ctx context.Context, id, hash string, now time.Time) (bool, error) {
	clock := time.Now()
	s.mu.Lock()
	last, known := s.known[hash]
	known = known && now.Before(last.until)
	away := clock.Before(s.resume)
	s.mu.Unlock()
	switch {
	case known && (away || clock.Sub(last.asked) < sessionFresh):
		return true, nil
	case away:
		return false, job.ErrUnavailable
	}
	call, cancel := context.WithTimeout(ctx, sessionCall)
	defer cancel()
	ends, err := s.opts.Store.Sessions(call, id, hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil: // the browser left
		return false, err
	case err != nil:
		s.resume = time.Now().Add(sessionRest)
		if known {
			return true, nil
		}
		return false, cannotSay(err)
	case !now.Before(ends[0]):
		delete(s.known, hash)
		return false, nil
	}
	if len(s.known) >= sessionsKnown {
		clear(s.known) // each session is looked up once more
	}
	s.known[hash] = knownSession{until: ends[0], asked: clock}
	return true, nil
}

// cannotSay turns a store's error into job.ErrUnavailable, also after a lost answer: a browser may simply try
// again.
func cannotSay(err error) error { return fmt.Errorf("%w: %s", job.ErrUnavailable, err.Error()) }

// sessionHashes returns the hashes under which the store may have a session: one of the key's secret, and one of
// the secret before it while a rotation lets that one stay valid.
func sessionHashes(text string, e *holding, now time.Time) []string {
	hashes := []string{sessionHash(text, e.Hash)}
	if now.Before(e.OldUntil) {
		hashes = append(hashes, sessionHash(text, e.OldHash))
	}
	return hashes
}

// sessionHash returns the hash that the store has of a session. No browser can log in with the hash, and it is
// valid only with the secret that was used at login.
func sessionHash(text string, secret [32]byte) string {
	sum := sha256.Sum256(append([]byte(text+"."), secret[:]...))
	return hex.EncodeToString(sum[:])
}

// parseSession returns the key's id in a session's text. ok is false for every text that Begin could not have made.
func parseSession(text string) (id string, ok bool) {
	if len(text) != sessionTextLen || text[idLen] != '.' {
		return "", false
	}
	id = text[:idLen]
	_, _, ok = Parse(prefix + id + "_" + text[idLen+1:])
	return id, ok
}
