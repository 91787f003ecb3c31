package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/netip"

	"github.com/tierq/tierq/internal/job"
)

// Clients of other protocols prove that they know a password, so a gateway must know the password itself, and tierq
// stores only the hash of a key's secret. Therefore each secret of a key has a password that is derived from the
// secret's hash and DoorsOptions.GatewaySecret. It is derived when it is needed, and stored nowhere.

// faktoryPassword returns the password for the Faktory protocol of the key's secret with this hash.
func faktoryPassword(gatewaySecret, keyID string, hash [32]byte) string {
	mac := hmac.New(sha256.New, []byte(gatewaySecret))
	mac.Write([]byte("faktory"))
	mac.Write([]byte(keyID))
	mac.Write(hash[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Gateway returns what a gateway needs to authenticate a client as the key with this id: the caller, as Enter would
// return him but without his address, and the passwords that are valid now. During a rotation's grace there are two.
// The error is job.ErrUnauthorized for a key that is unknown, revoked or expired, and job.ErrNoGateway if the server
// has no GatewaySecret. The gateway charges wrong passwords with CountWrong, and reports right ones with NoteUse.
func (d *Doors) Gateway(_ context.Context, keyID string) (job.Caller, []string, error) {
	if d.opts.GatewaySecret == "" {
		return job.Caller{}, nil, job.ErrNoGateway
	}
	e, known := d.opts.Keyring.find(keyID)
	now := d.opts.Keyring.opts.Now()
	if !known || e.Dead(now) {
		return job.Caller{}, nil, job.ErrUnauthorized
	}
	passwords := []string{faktoryPassword(d.opts.GatewaySecret, keyID, e.Hash)}
	if now.Before(e.OldUntil) {
		passwords = append(passwords, faktoryPassword(d.opts.GatewaySecret, keyID, e.OldHash))
	}
	return job.Caller{Key: d.bounded(e.Key)}, passwords, nil
}

// CountWrong charges a wrong key or password to the address that it came from. The error is a *job.RateError if the
// address has sent too many.
func (d *Doors) CountWrong(ctx context.Context, from netip.Addr) error {
	if a := d.opts.Limiter.Take(ctx, "failure:"+network(from), wrongPerSecond, wrongAtOnce, 1); a.RetryIn > 0 {
		return &job.RateError{In: a.RetryIn}
	}
	return nil
}

// NoteUse marks a key as used now.
func (d *Doors) NoteUse(keyID string) {
	if e, known := d.opts.Keyring.find(keyID); known {
		e.use()
	}
}

// GatewayPassword returns the present password of a key, for an admin. The error is job.ErrNoKey for a key that is
// unknown, revoked or expired, and job.ErrNoGateway if the server has no GatewaySecret.
func (d *Doors) GatewayPassword(ctx context.Context, keyID string) (string, error) {
	_, passwords, err := d.Gateway(ctx, keyID)
	switch {
	case errors.Is(err, job.ErrUnauthorized): // said of the caller's own key, it would be another answer
		return "", job.ErrNoKey
	case err != nil:
		return "", err
	}
	return passwords[0], nil
}

// OwnGatewayPassword returns the password that belongs to the secret in the Authorization headers of a request. During
// a rotation's grace the old secret's holder gets the old password, which ends with the grace. The errors are
// job.ErrUnauthorized and job.ErrNoGateway.
func (d *Doors) OwnGatewayPassword(authorization []string) (string, error) {
	key, ok := d.opts.Keyring.Authenticate(authorization)
	switch {
	case !ok:
		return "", job.ErrUnauthorized
	case d.opts.GatewaySecret == "":
		return "", job.ErrNoGateway
	}
	text, _ := bearer(authorization)
	_, secret, _ := Parse(text)
	return faktoryPassword(d.opts.GatewaySecret, key.ID, Hash(secret)), nil
}
