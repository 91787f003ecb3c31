package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Role is what an API key may do.
type Role string

// The roles.
const (
	RoleSubmit   Role = "submit"    // submits jobs of its tiers and types; sees, cancels and retries its own
	RoleReadOnly Role = "read-only" // sees everything, with payloads and results redacted; changes nothing
	RoleAdmin    Role = "admin"     // everything
	RoleWorker   Role = "worker"    // nothing in this version
)

// Key is an API key without what opens with it. Times are the zero time where there is nothing to say.
type Key struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Tiers     []Tier    `json:"tiers"`    // it may submit to; none = all
	Types     []string  `json:"types"`    // of jobs that it may submit; none = all
	Rate      float64   `json:"rate"`     // requests a second; 0 = any number
	Burst     int       `json:"burst"`    // requests at once; 0 = one second's worth
	InFlight  int       `json:"inFlight"` // jobs accepted and not ended, at most; 0 = any number
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// the id of the key that made it; "" = the command line, or an open server
	CreatedBy  string    `json:"createdBy,omitempty"`
	RotatedAt  time.Time `json:"rotatedAt,omitzero"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	RevokedAt  time.Time `json:"revokedAt,omitzero"`
	LastUsedAt time.Time `json:"lastUsedAt,omitzero"` // to within a minute
}

// NewKey is a key that is to be made: Name and Role must be there.
type NewKey struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Tiers     []Tier    `json:"tiers,omitempty"`
	Types     []string  `json:"types,omitempty"`
	Rate      float64   `json:"rate,omitzero"`
	Burst     int       `json:"burst,omitzero"`
	InFlight  int       `json:"inFlight,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero = never
}

// MadeKey is a key with its text, "tq_<id>_<secret>": what WithToken takes. No later call returns it.
type MadeKey struct {
	Text string `json:"key"`
	Key
	// Webhook is for its receivers; nil = the key submits nothing, or the server has no TIERQ_WEBHOOK_MASTER.
	Webhook *WebhookKeys `json:"webhook,omitempty"`
}

// Keys lists the API keys in the order they were made, those that were revoked too.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	got, _, err := fetch[struct {
		Items []Key `json:"items"`
	}](ctx, c, call{verb: "keys", method: http.MethodGet, path: "admin/keys"})
	return got.Items, err
}

// CreateKey makes an API key: ErrConflict for the first key of a server if it is not an admin's. A call whose answer
// was lost is not made again by itself: ErrOutcomeUnknown, and if Keys has the key, revoke it, for its text is lost.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (MadeKey, error) {
	body, err := json.Marshal(k)
	if err != nil {
		return MadeKey{}, fmt.Errorf("create key: %w", err)
	}
	made, _, err := fetch[MadeKey](ctx, c,
		call{verb: "create key", method: http.MethodPost, path: "admin/keys", body: body, changes: true, once: true})
	return made, err
}

// RotateKey gives a key another secret, under the same id. The one it had opens for grace longer, at most 30 days;
// whole seconds count. ErrNotFound for a key that opens nothing any more. A call whose answer was lost is not made
// again by itself, for twice would end the secret you have: ErrOutcomeUnknown.
func (c *Client) RotateKey(ctx context.Context, id string, grace time.Duration) (MadeKey, error) {
	body, err := json.Marshal(struct {
		GraceSeconds int64 `json:"graceSeconds"`
	}{int64(grace / time.Second)})
	if err != nil {
		return MadeKey{}, fmt.Errorf("rotate key: %w", err)
	}
	made, _, err := fetch[MadeKey](ctx, c, call{
		verb: "rotate key", method: http.MethodPost, path: "admin/keys/" + url.PathEscape(id) + "/rotate", body: body,
		changes: true, once: true,
	})
	return made, err
}

// RevokeKey ends a key for good. To revoke it again is no error; ErrNotFound is one that never was.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{verb: "revoke key", method: http.MethodDelete, path: "admin/keys/" + url.PathEscape(id),
		changes: true})
	return err
}
