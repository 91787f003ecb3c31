package auth

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// sessionShelf is a SessionStore that the test controls.
type sessionShelf struct {
	mu    sync.Mutex
	ends  map[string]time.Time // "key hash"
	asked int
	err   error
}

func (s *sessionShelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *sessionShelf) AddSession(_ context.Context, keyID, hash string, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.ends[keyID+" "+hash] = until
	}
	return s.err
}

func (s *sessionShelf) Sessions(_ context.Context, keyID string, hashes ...string) (ends []time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, hash := range hashes {
		ends = append(ends, s.ends[keyID+" "+hash])
	}
	return ends, s.err
}

func (s *sessionShelf) EndSession(_ context.Context, keyID string, hashes ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hash := range hashes {
		if s.err == nil {
			delete(s.ends, keyID+" "+hash)
		}
	}
	return s.err
}

// atTheDesk runs a test in synthetic time with a key, the Sessions of one process, and those of a second process
// with the same store.
func atTheDesk(t *testing.T, test func(t *testing.T, d *desk, id, key string, s, second *Sessions,
	kept *sessionShelf)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "")
		id, header := d.make(t, job.Key{Name: "ann", Role: job.RoleAdmin})
		if err := d.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := &sessionShelf{ends: map[string]time.Time{}}
		o := SessionsOptions{Store: kept, Keyring: d.Keyring, Now: time.Now, Instance: func() string { return "0a1b2c3d" }}
		test(t, d, id, strings.TrimPrefix(header, "Bearer "), NewSessions(o), NewSessions(o), kept)
	})
}

func begin(t *testing.T, s *Sessions, key string) string {
	t.Helper()
	text, lasts, err := s.Begin(t.Context(), key)
	if err != nil || lasts != 12*time.Hour {
		t.Fatalf("%q, %s, %v", text, lasts, err)
	}
	return text
}

// wants checks in each of these processes that the session is the key's with this id; "" = it is not valid.
func wants(t *testing.T, what, text, id string, all ...*Sessions) {
	t.Helper()
	for i, s := range all {
		if key, ok, err := s.Authenticate(t.Context(), text); key.ID != id || ok != (id != "") || err != nil {
			t.Errorf("%s, process %d: %q, %v, %v", what, i, key.ID, ok, err)
		}
	}
}

// later waits for d, after which the store's last answers are too old to be reused.
func later(d time.Duration) { <-time.After(d) }

// A session's text contains neither its key's secret nor the stored hash, and no two texts are the same.
func TestSessions_AreRandom(t *testing.T) {
	t.Attr("proves", "A05")
	atTheDesk(t, func(t *testing.T, d *desk, id, key string, s, second *Sessions, kept *sessionShelf) {
		one, two := begin(t, s, key), begin(t, s, key)
		secret := key[len(prefix)+idLen+1:]
		if one == two || strings.Contains(one, secret) || len(kept.ends) != 2 {
			t.Errorf("%q, %q, %d kept", one, two, len(kept.ends))
		}
		for name := range kept.ends {
			if strings.Contains(name, one[idLen+1:]) || strings.Contains(name, two[idLen+1:]) {
				t.Errorf("kept as it is shown: %s", name)
			}
		}
		wants(t, "its own", one, id, s, second)
		first := map[bool]string{true: "y", false: "x"}[one[0] == 'x'] // another character
		for _, wrong := range []string{
			"", one[:len(one)-1], one + "x", first + one[1:], strings.ToUpper(one), key, one[:idLen] + "." + secret,
			strings.Replace(one, ".", "_", 1), "aaaaaaaaaaaaaaaa" + one[idLen:], one[:len(one)-1] + "\n",
		} {
			wants(t, wrong, wrong, "", s, second)
		}
		plain, secure := s.CookieName(false), s.CookieName(true)
		if plain != "tierq_session_0a1b2c3d" || secure != "__Host-tierq_session_0a1b2c3d" {
			t.Errorf("%s, %s", plain, secure)
		}
	})
}

// A session lasts 12 h. It ends with a logout, with its key, and with the secret that was used at login.
func TestSessions_EndWithTheirKey(t *testing.T) {
	t.Attr("proves", "A04 A05")
	ends := map[string]func(t *testing.T, d *desk, id, text string, s *Sessions){
		"12 hours": func(*testing.T, *desk, string, string, *Sessions) { later(12 * time.Hour) },
		"logout": func(t *testing.T, _ *desk, _, text string, s *Sessions) {
			if err := errors.Join(s.End(t.Context(), text), s.End(t.Context(), text), s.End(t.Context(), "x")); err != nil {
				t.Error(err)
			}
			wants(t, "at once where it was asked", text, "", s)
			later(sessionFresh)
		},
		"revoked": func(t *testing.T, d *desk, id, _ string, _ *Sessions) {
			if _, err := d.keys.RevokeKey(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"rotated": func(t *testing.T, d *desk, id, _ string, _ *Sessions) {
			if _, _, err := d.keys.RotateKey(t.Context(), id, 0); err != nil {
				t.Error(err)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			atTheDesk(t, func(t *testing.T, d *desk, id, key string, s, second *Sessions, _ *sessionShelf) {
				text, other := begin(t, s, key), begin(t, s, key)
				later(11 * time.Hour)
				wants(t, "before", text, id, s, second)
				end(t, d, id, text, s)
				if err := d.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				wants(t, "after", text, "", s, second)
				if name == "logout" {
					wants(t, "the other login", other, id, s, second)
				}
			})
		})
	}
}

// After a rotation with a grace, sessions of the old secret are valid until the grace is over. Sessions of the new
// secret stay.
func TestSessions_Rotation(t *testing.T) {
	atTheDesk(t, func(t *testing.T, d *desk, id, key string, s, second *Sessions, _ *sessionShelf) {
		before := begin(t, s, key)
		_, rotated, err := d.keys.RotateKey(t.Context(), id, time.Hour)
		if err := errors.Join(err, d.Load(t.Context())); err != nil {
			t.Fatal(err)
		}
		after := begin(t, s, rotated)
		later(30 * time.Minute)
		wants(t, "in the grace", before, id, s, second)
		wants(t, "of the new secret", after, id, s, second)
		later(31 * time.Minute)
		wants(t, "after the grace", before, "", s, second)
		wants(t, "of the new secret, after the grace", after, id, s, second)
		if _, _, err := s.Begin(t.Context(), key); !errors.Is(err, job.ErrUnauthorized) {
			t.Errorf("a login with the old secret: %v", err)
		}
	})
}

// While the store is away, a process answers for the sessions that it knows, and returns an error for others
// instead of refusing them. A request does not wait for a store that has just not answered.
func TestSessions_WhileTheStoreIsAway(t *testing.T) {
	atTheDesk(t, func(t *testing.T, _ *desk, id, key string, s, second *Sessions, kept *sessionShelf) {
		text := begin(t, s, key)
		wants(t, "before", text, id, s)
		asked := kept.asked
		wants(t, "again", text, id, s)
		if kept.asked != asked {
			t.Errorf("the store was asked %d times", kept.asked)
		}
		kept.fail(job.ErrAmbiguous)
		later(time.Minute)
		wants(t, "away", text, id, s)
		_, ok, err := second.Authenticate(t.Context(), text)
		if ok || !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
			t.Errorf("a process that does not know it: %v, %v", ok, err)
		}
		asked = kept.asked
		if _, _, err := second.Authenticate(t.Context(), text); !errors.Is(err, job.ErrUnavailable) || kept.asked != asked {
			t.Errorf("%v, asked again: %v", err, kept.asked != asked)
		}
		if _, _, err := s.Begin(t.Context(), key); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("a login: %v", err)
		}
		if err := s.End(t.Context(), text); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("a logout: %v", err)
		}
		if _, ok, err := s.Authenticate(t.Context(), text); ok || !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("after the logout here: %v, %v", ok, err)
		}
		kept.fail(nil)
		later(sessionRest)
		wants(t, "back", text, id, second)
		clear(kept.ends) // Redis has lost everything
		later(sessionFresh)
		wants(t, "lost", text, "", s, second)
	})
}

// A wrong session is charged to its address like a wrong key. A session that cannot be looked up now is not
// charged.
func TestEnter_Session(t *testing.T) {
	t.Attr("proves", "A04 A06")
	atTheDesk(t, func(t *testing.T, d *desk, id, key string, s, _ *Sessions, kept *sessionShelf) {
		limiter := NewLimiter(newStore(), nil)
		defer limiter.Stop()
		doors := NewDoors(DoorsOptions{Keyring: d.Keyring, Sessions: s, Limiter: limiter})
		text := begin(t, s, key)
		c, err := doors.Enter(t.Context(), nil, text, somewhere)
		if err != nil || c.Key.ID != id || !c.Admin() || c.Address != somewhere {
			t.Errorf("%+v, %v", c, err)
		}
		c, err = doors.Enter(t.Context(), []string{"Bearer " + aText}, text, somewhere)
		if !errors.Is(err, job.ErrUnauthorized) {
			t.Errorf("the header goes first: %+v, %v", c, err)
		}
		right := begin(t, s, key)
		wrong := right[:len(right)-1] + map[bool]string{true: "E", false: "A"}[strings.HasSuffix(right, "A")]
		for n := range wrongAtOnce + 5 {
			_, err := doors.Enter(t.Context(), nil, wrong, elsewhere)
			if limited := errors.Is(err, job.ErrRateLimited); err == nil || limited != (n >= wrongAtOnce) {
				t.Errorf("wrong session %d: %v", n, err)
			}
		}
		kept.fail(job.ErrUnavailable)
		for range wrongAtOnce + 5 {
			if _, err := doors.Enter(t.Context(), nil, wrong, somewhere); !errors.Is(err, job.ErrUnavailable) {
				t.Errorf("%v", err)
			}
		}
	})
}
