package auth

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// KeyDesk is where keys are made and ended: job.ErrNoKey. After job.ErrAmbiguous it may have been done.
type KeyDesk interface {
	APIKeys(ctx context.Context) ([]job.StoredKey, error)
	APIKey(ctx context.Context, id string) (job.StoredKey, error)
	AddAPIKey(ctx context.Context, k job.StoredKey) (job.StoredKey, error)
	RotateAPIKey(ctx context.Context, id string, hash [32]byte, oldUntil time.Time) (job.StoredKey, error)
	RevokeAPIKey(ctx context.Context, id string) (job.StoredKey, error)
}

// KeysOptions are what Keys need.
type KeysOptions struct {
	Desk    KeyDesk
	Now     func() time.Time                // as of the Keyring
	Changed func(ctx context.Context) error // hears of each change; what fails is no failure of the change. Optional
}

// Keys makes and ends API keys. A key's secret is in what CreateKey and RotateKey return, and nowhere else.
type Keys struct{ opts KeysOptions }

// NewKeys makes it; it holds nothing of its own.
func NewKeys(o KeysOptions) *Keys {
	if o.Changed == nil {
		o.Changed = func(context.Context) error { return nil }
	}
	return &Keys{opts: o}
}

// maxGrace is how long an old secret may open beside the new one.
const maxGrace = 30 * 24 * time.Hour

// Keys lists all keys in the order they were made, those that open nothing any more too. That of TIERQ_ADMIN_KEY is in
// no store, and so not among them.
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

// CreateKey makes a key with a new id. Of what is asked for, the name, what it may do, the expiry and CreatedBy count.
// It returns the key and its text, or a *job.PayloadError for one that cannot be.
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

// RotateKey gives a key a new secret. The one it has opens for grace longer, at most 30 days; one that is older still
// ends now. A key that opens nothing any more is a *job.PayloadError: make another.
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

// RevokeKey ends a key, on this process at once and on the others within two seconds. Revoking it again changes
// nothing. The last admin's key may go too: TIERQ_ADMIN_KEY, or tierq keys create --store, is the way back in.
func (k *Keys) RevokeKey(ctx context.Context, id string) (job.Key, error) {
	stored, err := k.opts.Desk.RevokeAPIKey(ctx, id)
	if err != nil {
		return job.Key{}, err
	}
	k.tell(ctx)
	return stored.Key, nil
}

// tell lets this process' keyring know at once; if it cannot, it looks for itself in a second.
func (k *Keys) tell(ctx context.Context) { _ = k.opts.Changed(ctx) }
