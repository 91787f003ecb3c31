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

// KeyStore keeps the keys. All its errors but job.ErrNoKey mean that it cannot say now.
type KeyStore interface {
	APIKeys(ctx context.Context) ([]job.StoredKey, error)
	// APIKeysVersion is another number after each change.
	APIKeysVersion(ctx context.Context) (int64, error)
	// UsedAPIKeys notes that keys were used at about that time.
	UsedAPIKeys(ctx context.Context, ids []string, at time.Time) error
}

// KeyringOptions are what a Keyring needs.
type KeyringOptions struct {
	Store KeyStore
	Admin string           // the text of a key that no store knows; "" = none
	Shut  bool             // Open is false also before the first key
	Now   func() time.Time // by which keys expire
	Log   *slog.Logger

	Refresh time.Duration // between two looks at the store; default 1 s
	Flush   time.Duration // between two notes of which keys were used; default 10 s
}

const (
	// AdminName is what the key is called that was given by a setting.
	AdminName = "TIERQ_ADMIN_KEY"

	refreshEvery = time.Second
	flushEvery   = 10 * time.Second
	lookBound    = 5 * time.Second
)

// Keyring is the keys as this process knows them. It looks at the store once a second; while the store is away it
// serves what it knows, so that no known caller is turned away, and a key that was revoked meanwhile opens until the
// store is back. It is safe for concurrent use.
type Keyring struct {
	opts   KeyringOptions
	log    *slog.Logger
	admin  *holding // nil = none
	nobody *holding // stands in for a key that is not there, so that the look takes as long
	ring   atomic.Pointer[ring]
	closed atomic.Bool // this server is never open again: a key was seen, or KeyringOptions.Shut says so

	loop    *loop.Loop
	mu      sync.Mutex // guards what follows, and the look at the store
	version int64
	loaded  bool
	failing bool
	flushed time.Duration // looks since the last flush, in time
}

// ring is the keys by id.
type ring struct {
	keys map[string]*holding
	made int // in the store, dead ones too
}

type holding struct {
	job.StoredKey
	used *atomic.Bool // since the last flush
}

// NewKeyring makes a keyring that knows the Admin key and no other until Load. It returns an error for an Admin key
// that is none.
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
			return nil, errors.New(AdminName + ": is no key: write what tierq keys generate prints")
		}
		k.admin = newHolding(job.StoredKey{Key: job.Key{ID: id, Name: AdminName, Role: job.RoleAdmin}, Hash: Hash(secret)},
			nil)
		k.closed.Store(true)
	}
	k.loop = loop.New(k.runOnce)
	return k, nil
}

// newHolding takes over what is known of the use of the key it replaces.
func newHolding(s job.StoredKey, was *holding) *holding {
	e := &holding{StoredKey: s, used: new(atomic.Bool)}
	if was != nil {
		e.used = was.used
	}
	return e
}

// Load reads the keys from the store, if they changed. After its first success the keyring serves.
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
	// What changes from here on is read twice.
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

// Open says whether no key was ever made, so that everybody may do everything. Once there was one, and with
// KeyringOptions.Shut from the start, this is false for good, whatever becomes of the key or of the store.
func (k *Keyring) Open() bool { return !k.closed.Load() }

// Made is how many keys the store has, those that open nothing any more too.
func (k *Keyring) Made() int { return k.ring.Load().made }

// Authenticate says whose key the Authorization headers of a request hold. The answer is the same, and takes as long,
// whether there is no key, none of this form, none with this id, one with another secret, or one that has expired or
// was revoked.
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
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.Key, true
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

// Start loads the keys, if Load has not, and looks at the store from then on. An error means that there are no keys to
// serve.
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

// Stop notes which keys were used since the last note, and ends.
func (k *Keyring) Stop(ctx context.Context) error {
	if err := k.loop.Stop(ctx); err != nil {
		return err
	}
	k.flush(ctx)
	return nil
}

// runOnce looks at the store, and now and then notes there which keys were used.
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

// flush notes which keys were used since the last time. What it cannot note is noted when the key is used again.
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
