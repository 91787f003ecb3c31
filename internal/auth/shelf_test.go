package auth

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// shelf is a store of keys and changes that the test controls.
type shelf struct {
	mu      sync.Mutex
	keys    []job.StoredKey
	version int64
	looks   int
	loads   int
	used    map[string]time.Time
	changes []job.Change
	calls   int // of AddChanges
	err     error
	now     func() time.Time
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

var errAway = errors.New("SQL is away")

func (s *shelf) APIKeysVersion(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.version, s.err
}

func (s *shelf) APIKeys(context.Context) ([]job.StoredKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	return slices.Clone(s.keys), s.err
}

func (s *shelf) APIKey(_ context.Context, id string) (job.StoredKey, error) {
	return s.change(id, func(*job.StoredKey) {})
}

func (s *shelf) AddAPIKey(_ context.Context, k job.StoredKey) (job.StoredKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return k, s.err
	}
	k.CreatedAt = s.now()
	s.keys = append(s.keys, k)
	s.version++
	return k, nil
}

func (s *shelf) RotateAPIKey(_ context.Context, id string, hash [32]byte, oldUntil time.Time) (job.StoredKey, error) {
	return s.change(id, func(k *job.StoredKey) {
		k.OldHash, k.OldUntil, k.Hash, k.RotatedAt = k.Hash, oldUntil, hash, s.now()
		s.version++
	})
}

func (s *shelf) RevokeAPIKey(_ context.Context, id string) (job.StoredKey, error) {
	return s.change(id, func(k *job.StoredKey) {
		k.RevokedAt = s.now()
		s.version++
	})
}

func (s *shelf) change(id string, how func(*job.StoredKey)) (job.StoredKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.keys, func(k job.StoredKey) bool { return k.ID == id })
	switch {
	case s.err != nil:
		return job.StoredKey{}, s.err
	case i < 0:
		return job.StoredKey{}, job.ErrNoKey
	}
	how(&s.keys[i])
	return s.keys[i], nil
}

func (s *shelf) UsedAPIKeys(_ context.Context, ids []string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.used == nil {
		s.used = map[string]time.Time{}
	}
	for _, id := range ids {
		s.used[id] = at
	}
	return nil
}

func (s *shelf) AddChanges(_ context.Context, changes []job.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.err != nil {
		return s.err
	}
	s.changes = append(s.changes, changes...)
	return nil
}

func (s *shelf) Changes(context.Context, string, int) ([]job.Change, string, error) {
	return s.changes, "", s.err
}

func (s *shelf) lastUse(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[id]
}

func (s *shelf) written() []job.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}
