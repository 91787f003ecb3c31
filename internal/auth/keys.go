package auth

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// KeyDesk makes, changes and revokes keys in the store. The error is job.ErrNoKey if there is no such key. After
// job.ErrAmbiguous the change may have been made.
type KeyDesk interface {
	APIKeys(ctx context.Context) ([]job.StoredKey, error)
	APIKey(ctx context.Context, id string) (job.StoredKey, error)
	AddAPIKey(ctx context.Context, k job.StoredKey) (job.StoredKey, error)
	RotateAPIKey(ctx context.Context, id string, hash [32]byte, oldUntil time.Time) (job.StoredKey, error)
	RevokeAPIKey(ctx context.Context, id string) (job.StoredKey, error)
}

// KeysOptions has what Keys needs.
type KeysOptions struct {
	Desk    KeyDesk
	Now     func() time.Time                // the same clock as the Keyring's
	Changed func(ctx context.Context) error // called after each change; its error is ignored. Optional
}

// Keys makes and revokes API keys. Only the results of CreateKey and RotateKey have a key's secret.
type Keys struct{ opts KeysOptions }

// NewKeys makes Keys. They hold no state of their own.
func NewKeys(o KeysOptions) *Keys {
	if o.Changed == nil {
		o.Changed = func(context.Context) error { return nil }
	}
	return &Keys{opts: o}
}

// maxGrace bounds how long an old secret stays valid besides the new one.
const maxGrace = 30 * 24 * time.Hour

// Keys returns all keys in the order in which they were made, also expired and revoked ones. The key of
// TIERQ_ADMIN_KEY is not in the store, so it is not among them.
func (k *Keys) Keys(ctx context.Context) ([]job.Key, error) {
	stored, err := k.opts.Desk.APIKeys(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]job.Key, len(stored))
	for i := range stored {
		keys[i] = stored[i].Key
	}
	return keys, nil
}

// CreateKey makes a key with a new id. From asked it takes the name, the rights, the limits, the expiry and
// CreatedBy. It returns the key and its text, or a *job.PayloadError if asked is not valid.
func (k *Keys) CreateKey(ctx context.Context, asked job.Key) (job.Key, string, error) {
	if err := check(&asked, k.opts.Now()); err != nil {
		return job.Key{}, "", err
	}
	id, secret, text := Mint()
	asked.ID, asked.RotatedAt, asked.RevokedAt, asked.LastUsedAt = id, time.Time{}, time.Time{}, time.Time{}
	stored, err := k.opts.Desk.AddAPIKey(ctx, job.StoredKey{Key: asked, Hash: Hash(secret)})
	if err != nil {
		return job.Key{}, "", err
	}
	k.tell(ctx)
	return stored.Key, text, nil
}

// RotateKey gives a key a new secret. The present secret stays valid for the time grace, at most 30 days; an older
// one ends now. For an expired or revoked key the error is a *job.PayloadError: the caller has to make another key.
func (k *Keys) RotateKey(ctx context.Context, id string, grace time.Duration) (job.Key, string, error) {
	if grace < 0 || grace > maxGrace {
		return job.Key{}, "", &job.PayloadError{Field: "graceSeconds", Reason: "must be 0 to 2592000, which is 30 days"}
	}
	now := k.opts.Now()
	was, err := k.opts.Desk.APIKey(ctx, id)
	switch {
	case err != nil:
		return job.Key{}, "", err
	case was.Dead(now):
		return job.Key{}, "", &job.PayloadError{Field: "id", Reason: "is of a key that expired or was revoked: make another"}
	}
	secret, text := mintSecret(id)
	stored, err := k.opts.Desk.RotateAPIKey(ctx, id, Hash(secret), now.Add(grace))
	if err != nil {
		return job.Key{}, "", err
	}
	k.tell(ctx)
	return stored.Key, text, nil
}

// RevokeKey revokes a key, in this process at once and in the others within two seconds. A repeat changes nothing.
// Even the last admin's key may be revoked: TIERQ_ADMIN_KEY, or tierq keys create --store, gives access again.
func (k *Keys) RevokeKey(ctx context.Context, id string) (job.Key, error) {
	stored, err := k.opts.Desk.RevokeAPIKey(ctx, id)
	if err != nil {
		return job.Key{}, err
	}
	k.tell(ctx)
	return stored.Key, nil
}

// tell makes this process's keyring load a change at once. If that fails, the keyring finds the change within a
// second.
func (k *Keys) tell(ctx context.Context) { _ = k.opts.Changed(ctx) }
