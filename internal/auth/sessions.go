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

// SessionStore keeps sessions as hashes, by the id of their key. All its errors mean that it cannot say now.
type SessionStore interface {
	// AddSession keeps a session until then; the store bounds how many a key has.
	AddSession(ctx context.Context, keyID, hash string, until time.Time) error
	// Sessions says until when each hash is a session of the key; the zero time = it is none.
	Sessions(ctx context.Context, keyID string, hashes ...string) ([]time.Time, error)
	// EndSession ends these sessions, which need not be there.
	EndSession(ctx context.Context, keyID string, hashes ...string) error
}

// SessionsOptions are what Sessions need.
type SessionsOptions struct {
	Store    SessionStore
	Keyring  *Keyring
	Now      func() time.Time // as of the Keyring
	Instance func() string    // names this server among those on its host
}

// Sessions are the logins of browsers. A session stands for its API key, which is looked up with every request, and for
// the secret that the login showed. It is safe for concurrent use.
type Sessions struct {
	opts SessionsOptions

	mu     sync.Mutex
	known  map[string]knownSession // by hash: the sessions that the store has
	resume time.Time               // the store did not answer: it is not asked before
}

// knownSession is what the store said of one session.
type knownSession struct {
	until time.Time // by SessionsOptions.Now
	asked time.Time // by this process' own clock
}

const (
	sessionTime    = 12 * time.Hour
	sessionPrefix  = "tierq_session_"
	sessionFresh   = time.Second            // what the store said is repeated for so long
	sessionCall    = 400 * time.Millisecond // of one question to the store
	sessionRest    = time.Second            // how long a store that did not answer is left alone
	sessionsKnown  = 10_000
	sessionTextLen = idLen + 1 + secretLen
)

// NewSessions makes them. They hold nothing but what the store said last.
func NewSessions(o SessionsOptions) *Sessions {
	return &Sessions{opts: o, known: map[string]knownSession{}}
}

// CookieName is the name of the cookie that holds a session: of this server alone, since browsers send cookies to all
// ports of a host. With the prefix __Host- a browser takes it over TLS only, and from no other host of the domain.
func (s *Sessions) CookieName(secure bool) string {
	name := sessionPrefix + s.opts.Instance()
	if secure {
		return "__Host-" + name
	}
	return name
}

// Begin makes a session of the key with this text and returns what the browser shows, and for how long.
// The error is job.ErrUnauthorized for a key that opens nothing, or the store's.
func (s *Sessions) Begin(ctx context.Context, keyText string) (text string, lasts time.Duration, err error) {
	key, ok := s.opts.Keyring.Authenticate([]string{"Bearer " + keyText})
	if !ok {
		return "", 0, job.ErrUnauthorized
	}
	_, secret, _ := Parse(keyText)
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails, says crypto/rand
	text = key.ID + "." + secretCoding.EncodeToString(random)
	hash := sessionHash(text, Hash(secret))
	if err := s.opts.Store.AddSession(ctx, key.ID, hash, s.opts.Now().Add(sessionTime)); err != nil {
		return "", 0, cannotSay(err)
	}
	return text, sessionTime, nil
}

// Authenticate says whose session a text is. ok is false for a session that has ended, or whose key is refused. While
// the store is away, Authenticate answers for the sessions that this process knows; for others it returns the store's
// error.
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
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.Key, true, nil
}

// End ends a session, in this process at once and in the others within two seconds. Text that is no session is ended
// already. After an error the session may go on elsewhere.
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

// lives says whether a hash is a session of the key, as the store says or said within the last second.
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
		clear(s.known) // each is asked for once more
	}
	s.known[hash] = knownSession{until: ends[0], asked: clock}
	return true, nil
}

// cannotSay is the store's error for a browser, which may simply ask again: also after an answer that was lost.
func cannotSay(err error) error { return fmt.Errorf("%w: %s", job.ErrUnavailable, err.Error()) }

// sessionHashes are the hashes under which the store may know a session: of the key's secret, and of the one before it
// while a rotation lets that one open still.
func sessionHashes(text string, e *holding, now time.Time) []string {
	hashes := []string{sessionHash(text, e.Hash)}
	if now.Before(e.OldUntil) {
		hashes = append(hashes, sessionHash(text, e.OldHash))
	}
	return hashes
}

// sessionHash is what the store keeps of a session: it opens nothing, and ends with the secret that the login showed.
func sessionHash(text string, secret [32]byte) string {
	sum := sha256.Sum256(append([]byte(text+"."), secret[:]...))
	return hex.EncodeToString(sum[:])
}

// parseSession takes the key's id out of a session's text. Whatever deviates from what Begin writes is no session.
func parseSession(text string) (id string, ok bool) {
	if len(text) != sessionTextLen || text[idLen] != '.' {
		return "", false
	}
	id = text[:idLen]
	_, _, ok = Parse(prefix + id + "_" + text[idLen+1:])
	return id, ok
}
