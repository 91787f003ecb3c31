package httpapi

import (
	"context"
	"net/netip"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Doors authenticates callers and charges their requests to their rates.
type Doors interface {
	// Enter returns the caller of a request. authorization has all values of the header Authorization. session is the
	// session of a logged-in browser; it counts only if that header is missing. Without either the caller is a
	// stranger; on an open server he may do everything. Errors: job.ErrUnauthorized for every fault of a key or a
	// session, after the same time; job.ErrRateLimited, with RetryIn, for an address that sent too many wrong keys or
	// too many requests; job.ErrUnavailable if no store can say whether the session is valid.
	Enter(ctx context.Context, authorization []string, session string, from netip.Addr) (job.Caller, error)
	// CookieName returns the name of the session cookie, over TLS (secure) or without.
	CookieName(secure bool) string
	// CountAddress charges a request for a path that needs no key to the rate of its address. It returns a
	// job.ErrRateLimited, with RetryIn, for an address that sends too many. Enter charges its own requests.
	CountAddress(ctx context.Context, from netip.Addr) error
	// Spend charges n requests to the caller's rate. Allowance.RetryIn > 0 means that all n are refused.
	Spend(ctx context.Context, c *job.Caller, n int) job.Allowance
	// SpendMore charges n more entries of a batch to the caller's rate, and to the rate of the address.
	SpendMore(ctx context.Context, c *job.Caller, n int) job.Allowance
	// SpendCostly charges a request that costs as much as n requests to the key's rate and to the address's rate. One
	// of the n was charged already. At most half of a rate's burst is charged, so that the request passes at some
	// time.
	SpendCostly(ctx context.Context, c *job.Caller, n int) job.Allowance
	// SpendIdempotency charges n submits with an Idempotency-Key to the number of such keys that the caller may have
	// at once. Allowance.RetryIn > 0 means that all n are refused.
	SpendIdempotency(ctx context.Context, c *job.Caller, n int) job.Allowance
	// Open says whether there are no keys, so that every caller may do everything.
	Open() bool
}

// Gateways has the passwords with which clients of other protocols authenticate as a key. The error is
// job.ErrNoGateway if the server has no secret for them.
type Gateways interface {
	// GatewayPassword returns a key's present password; job.ErrNoKey for a key that is unknown, revoked or expired.
	GatewayPassword(ctx context.Context, keyID string) (string, error)
	// OwnGatewayPassword returns the password that belongs to the API key in these Authorization headers;
	// job.ErrUnauthorized if it is not valid.
	OwnGatewayPassword(authorization []string) (string, error)
}

// Keys makes and revokes API keys. The error is job.ErrNoKey if there is no such key, and a *job.PayloadError if
// the key that was asked for is not valid.
type Keys interface {
	Keys(ctx context.Context) ([]job.Key, error)
	// CreateKey and RotateKey also return the key's text that callers send, tq_<id>_<secret>. The text is not stored
	// anywhere.
	CreateKey(ctx context.Context, k job.Key) (job.Key, string, error)
	// RotateKey gives a key a new secret. The old secret stays valid for the time grace.
	RotateKey(ctx context.Context, id string, grace time.Duration) (job.Key, string, error)
	RevokeKey(ctx context.Context, id string) (job.Key, error)
}

// Changes is the log of what operators changed.
type Changes interface {
	// Record stores a change. It does not wait for SQL.
	Record(c job.Change)
	// Changes returns a page of the log, newest first, and the cursor of the next page; job.ErrBadCursor.
	Changes(ctx context.Context, cursor string, limit int) ([]job.Change, string, error)
}
