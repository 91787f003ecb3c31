package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Role decides what an API key may do.
type Role string

// The roles.
const (
	RoleSubmit   Role = "submit"    // submits jobs of its tiers and types; sees, cancels and retries its own
	RoleReadOnly Role = "read-only" // sees everything, with payloads and results redacted; changes nothing
	RoleAdmin    Role = "admin"     // everything
	// claims jobs of its queues and tiers, and reports their ends; sees nothing else, unless it also submits
	RoleWorker Role = "worker"
)

// Key is an API key without its secret. Absent times are the zero time.
type Key struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Tiers     []Tier    `json:"tiers"`             // that it may submit to, or a worker's key may claim; none = all
	Types     []string  `json:"types"`             // of jobs that it may submit; none = all
	Queues    []string  `json:"queues"`            // of a worker's key, each a name or a prefix and *; none = all
	Rate      float64   `json:"rate"`              // requests a second; 0 = no limit
	Burst     int       `json:"burst"`             // requests at once; 0 = one second's worth
	InFlight  int       `json:"inFlight"`          // the most jobs accepted and not ended; 0 = no limit
	Submits   bool      `json:"submits,omitempty"` // a worker's key also submits, to its queues
	Leases    int       `json:"leases,omitempty"`  // the most jobs that a worker's key runs at once; 0 = no limit
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// CreatedBy is the id of the key that created this one; "" = the command line, or an open server.
	CreatedBy  string    `json:"createdBy,omitempty"`
	RotatedAt  time.Time `json:"rotatedAt,omitzero"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	RevokedAt  time.Time `json:"revokedAt,omitzero"`
	LastUsedAt time.Time `json:"lastUsedAt,omitzero"` // to within a minute
}

// NewKey describes a key to be created: Name and Role are required. Queues (each a name, or a prefix of names and *),
// Submits and Leases are for keys of the role worker.
type NewKey struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Tiers     []Tier    `json:"tiers,omitempty"`
	Types     []string  `json:"types,omitempty"`
	Queues    []string  `json:"queues,omitempty"`
	Submits   bool      `json:"submits,omitzero"`
	Leases    int       `json:"leases,omitzero"`
	Rate      float64   `json:"rate,omitzero"`
	Burst     int       `json:"burst,omitzero"`
	InFlight  int       `json:"inFlight,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero = never
}

// MadeKey is a new key with its text, "tq_<id>_<secret>", which WithToken takes. No later call returns the text.
type MadeKey struct {
	Text string `json:"key"`
	Key
	// Webhook are the keys for its receivers; nil = the key may not submit, or the server has no
	// TIERQ_WEBHOOK_MASTER.
	Webhook *WebhookKeys `json:"webhook,omitempty"`
}

// Keys lists the API keys in the order of their creation, including revoked ones.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	got, _, err := fetch[struct {
		Items []Key `json:"items"`
	}](ctx, c, call{verb: "keys", method: http.MethodGet, path: "admin/keys"})
	return got.Items, err
}

// CreateKey creates an API key. It returns ErrConflict for the first key of a server if it is not an admin's. The
// client does not repeat a call whose answer was lost: the error is ErrOutcomeUnknown. If Keys then lists the key,
// revoke it, because its text is lost.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (MadeKey, error) {
	body, err := json.Marshal(k)
	if err != nil {
		return MadeKey{}, fmt.Errorf("create key: %w", err)
	}
	made, _, err := fetch[MadeKey](ctx, c,
		call{verb: "create key", method: http.MethodPost, path: "admin/keys", body: body, changes: true, once: true})
	return made, err
}

// RotateKey gives a key a new secret under the same id. The old secret stays valid for grace, at most 30 days, cut
// to whole seconds. It returns ErrNotFound for a key that is no longer valid. The client does not repeat a call
// whose answer was lost, because a second rotation would end the caller's secret: the error is ErrOutcomeUnknown.
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

// Gateway has what a client of the Faktory protocol authenticates with as an API key. On an open server, whose clients
// need no password, KeyID and Password are empty.
type Gateway struct {
	KeyID      string `json:"keyId,omitempty"`
	Password   string `json:"password,omitempty"` // a rotation of the key changes it
	FaktoryURL string `json:"faktoryUrl"`         // the value for FAKTORY_URL, with both in it
}

// KeyGateway returns the gateway password of a key, for admins. The server writes it to its log of changes. It returns
// ErrNotFound for a key that is unknown, revoked or expired, and ErrConflict if the server has no
// TIERQ_GATEWAY_SECRET.
func (c *Client) KeyGateway(ctx context.Context, id string) (Gateway, error) {
	got, _, err := fetch[Gateway](ctx, c, call{
		verb: "key gateway", method: http.MethodPost, path: "admin/keys/" + url.PathEscape(id) + "/gateway", changes: true,
	})
	return got, err
}

// OwnGateway returns the gateway password that belongs to the client's own key. It returns ErrConflict if the server
// has no TIERQ_GATEWAY_SECRET.
func (c *Client) OwnGateway(ctx context.Context) (Gateway, error) {
	got, _, err := fetch[Gateway](ctx, c,
		call{verb: "own gateway", method: http.MethodPost, path: "api/me/gateway", changes: true})
	return got, err
}

// RevokeKey ends a key for good. Revoking it again is not an error. It returns ErrNotFound for a key that never
// existed.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{verb: "revoke key", method: http.MethodDelete, path: "admin/keys/" + url.PathEscape(id),
		changes: true})
	return err
}
