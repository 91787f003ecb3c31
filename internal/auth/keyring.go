package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// KeyStore stores the API keys. Every error except job.ErrNoKey means that the store does not answer now.
type KeyStore interface {
	APIKeys(ctx context.Context) ([]job.StoredKey, error)
	// APIKeysVersion returns a number that is another one after each change of the keys.
	APIKeysVersion(ctx context.Context) (int64, error)
	// UsedAPIKeys records that these keys were used at about this time.
	UsedAPIKeys(ctx context.Context, ids []string, at time.Time) error
}

// KeyringOptions has what a Keyring needs.
type KeyringOptions struct {
	Store KeyStore
	Admin string           // the text of an admin's key that is in no store; "" = none
	Shut  bool             // Open is false also before the first key
	Now   func() time.Time // by which keys expire
	Log   *slog.Logger

	Refresh time.Duration // between two checks of the store's version; default 1 s
	Flush   time.Duration // between two records of the used keys; default 10 s
}

const (
	// AdminName is the name of the key that is set by this setting.
	AdminName = "TIERQ_ADMIN_KEY"

	refreshEvery = time.Second
	flushEvery   = 10 * time.Second
	lookBound    = 5 * time.Second
)

// Keyring holds the API keys as this process knows them. It checks the store for changes once a second. While the
// store is away it serves the known keys, so that no known caller is refused; a key that is revoked meanwhile stays
// valid until the store is back. It is safe for concurrent use.
type Keyring struct {
	opts   KeyringOptions
	log    *slog.Logger
	admin  *holding // nil = none
	nobody *holding // compared in place of an unknown key, so that both take the same time
	ring   atomic.Pointer[ring]
	closed atomic.Bool // the server is not open any more: it has had a key, or Shut is set

	loop    *loop.Loop
	mu      sync.Mutex // guards the fields below, and the check of the store
	version int64
	loaded  bool
	failing bool
	flushed time.Duration // time since the last flush, in steps of Refresh
}

// ring maps ids to keys.
type ring struct {
	keys map[string]*holding
	made int // number of keys in the store, also expired and revoked ones
}

type holding struct {
	job.StoredKey
	used *atomic.Bool // used since the last flush
}

// NewKeyring makes a keyring that knows only the Admin key until Load. It returns an error if Admin is not a key's
// text.
func NewKeyring(o KeyringOptions) (*Keyring, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refresh <= 0 {
		o.Refresh = refreshEvery
	}
	if o.Flush <= 0 {
		o.Flush = flushEvery
	}
	_, secret, _ := Mint()
	k := &Keyring{opts: o, log: o.Log, nobody: newHolding(job.StoredKey{Hash: Hash(secret)}, nil)}
	k.ring.Store(&ring{})
	k.closed.Store(o.Shut)
	if o.Admin != "" {
		id, secret, ok := Parse(o.Admin)
		if !ok {
			return nil, errors.New(AdminName + ": is not an API key: write the output of tierq keys generate")
		}
		k.admin = newHolding(job.StoredKey{Key: job.Key{ID: id, Name: AdminName, Role: job.RoleAdmin}, Hash: Hash(secret)},
			nil)
		k.closed.Store(true)
	}
	k.loop = loop.New(k.runOnce)
	return k, nil
}

// newHolding makes the holding of a stored key. It shares the mark of use with was, the holding that it replaces.
func newHolding(s job.StoredKey, was *holding) *holding {
	e := &holding{StoredKey: s, used: new(atomic.Bool)}
	if was != nil {
		e.used = was.used
	}
	return e
}

// Load reads the keys from the store if they have changed. The keyring serves them after its first success.
func (k *Keyring) Load(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	version, err := k.opts.Store.APIKeysVersion(ctx)
	if err != nil {
		return fmt.Errorf("look for new API keys: %w", err)
	}
	if k.loaded && version == k.version {
		return nil
	}
	// A change from here on is read now and once more with its version.
	keys, err := k.opts.Store.APIKeys(ctx)
	if err != nil {
		return fmt.Errorf("load API keys: %w", err)
	}
	was := k.ring.Load()
	now := &ring{keys: make(map[string]*holding, len(keys)), made: len(keys)}
	for _, s := range keys {
		now.keys[s.ID] = newHolding(s, was.keys[s.ID])
	}
	k.ring.Store(now)
	if len(keys) > 0 {
		k.closed.Store(true)
	}
	k.version, k.loaded = version, true
	return nil
}

// Open reports whether no key was ever made, so that everybody may do everything. Once there was a key it stays
// false for good, whatever happens to the key and the store. With KeyringOptions.Shut it is false from the start.
func (k *Keyring) Open() bool { return !k.closed.Load() }

// Made returns how many keys the store has, also expired and revoked ones.
func (k *Keyring) Made() int { return k.ring.Load().made }

// Authenticate returns the key in the Authorization headers of a request; false if there is none that is valid. The
// answer is the same, and takes the same time, for every fault: no header, a text of another form, an unknown id,
// another secret, an expired or a revoked key.
func (k *Keyring) Authenticate(authorization []string) (job.Key, bool) {
	text, formed := bearer(authorization)
	id, secret, parsed := Parse(text)
	if !parsed {
		secret = "a text that is as long as a secret is, 43 bytes"[:secretLen]
	}
	hash := Hash(secret)
	e, known := k.find(id)
	now := k.opts.Now()
	is := subtle.ConstantTimeCompare(hash[:], e.Hash[:])
	was := subtle.ConstantTimeCompare(hash[:], e.OldHash[:])
	if !now.Before(e.OldUntil) {
		was = 0
	}
	if is|was == 0 || e.Dead(now) || !known || !parsed || !formed {
		return job.Key{}, false
	}
	e.use()
	return e.Key, true
}

// use marks the key as used. Most calls only read the mark, because all requests of a key share it.
func (e *holding) use() {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

func (k *Keyring) find(id string) (*holding, bool) {
	if k.admin != nil && k.admin.ID == id {
		return k.admin, true
	}
	if e, ok := k.ring.Load().keys[id]; ok {
		return e, true
	}
	return k.nobody, false
}

// Start loads the keys if Load has not, and from then on checks the store for changes. An error means that there
// are no keys to serve.
func (k *Keyring) Start(ctx context.Context) error {
	k.mu.Lock()
	loaded := k.loaded
	k.mu.Unlock()
	if !loaded {
		if err := k.Load(ctx); err != nil {
			return err
		}
	}
	return k.loop.Start(ctx)
}

// Stop ends the checks, and records the keys that were used since the last record.
func (k *Keyring) Stop(ctx context.Context) error {
	if err := k.loop.Stop(ctx); err != nil {
		return err
	}
	k.flush(ctx)
	return nil
}

// runOnce checks the store for changes, and records the used keys when it is time.
func (k *Keyring) runOnce(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	err := k.Load(call)
	if err != nil && !k.failing && ctx.Err() == nil {
		k.log.Warn("cannot look for new API keys; going on with those that are known", "err", err)
	}
	k.failing = err != nil
	k.flushed += k.opts.Refresh
	if err == nil && k.flushed >= k.opts.Flush {
		k.flush(call)
	}
	return k.opts.Refresh
}

// flush records which keys were used since the last flush. If that fails, a key is recorded after its next use.
func (k *Keyring) flush(ctx context.Context) {
	k.flushed = 0
	var used []string
	for id, e := range k.ring.Load().keys {
		if e.used.Swap(false) {
			used = append(used, id)
		}
	}
	if len(used) == 0 {
		return
	}
	if err := k.opts.Store.UsedAPIKeys(ctx, used, k.opts.Now()); err != nil {
		k.log.Debug("cannot note which API keys were used", "err", err)
	}
}
