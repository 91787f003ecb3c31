package httpapi

import (
	"context"
	"net/netip"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Doors says who comes in.
type Doors interface {
	// Enter says who calls: authorization is the request's Authorization header, all its values; session is what a
	// browser that logged in shows, and counts where that header is missing. Whatever is wrong with either, the error
	// is job.ErrUnauthorized and takes as long; a job.ErrRateLimited, with RetryIn, comes from addresses that were
	// wrong too often, or that ask too much; job.ErrUnavailable means that nothing can say whether a session is one. A
	// request with neither is a stranger's, or on an open server anybody's.
	Enter(ctx context.Context, authorization []string, session string, from netip.Addr) (job.Caller, error)
	// CookieName is the name of the cookie in which a browser shows its session, over TLS or not.
	CookieName(secure bool) string
	// CountAddress takes a request for a path without a key from the rate of its address. It returns a
	// job.ErrRateLimited, with RetryIn, for an address that asks too often. Enter counts its own requests.
	CountAddress(ctx context.Context, from netip.Addr) error
	// Spend takes n requests from the caller's rate: Allowance.RetryIn > 0 = it refuses them all.
	Spend(ctx context.Context, c *job.Caller, n int) job.Allowance
	// SpendMore takes what n more entries of a batch cost, of the address' rate too.
	SpendMore(ctx context.Context, c *job.Caller, n int) job.Allowance
	// SpendCostly charges a request that costs as much as n requests, of which one was spent already, to the key's rate
	// and to the address' rate. It takes at most half of a rate's burst, so that the request passes at some time.
	SpendCostly(ctx context.Context, c *job.Caller, n int) job.Allowance
	// SpendIdempotency takes the Idempotency-Keys of n submits from those that the caller may have stand at once:
	// Allowance.RetryIn > 0 = it refuses them all.
	SpendIdempotency(ctx context.Context, c *job.Caller, n int) job.Allowance
	// Open says whether there are no keys, so that everybody may do everything.
	Open() bool
}

// Keys makes and ends API keys: job.ErrNoKey, and for a key that cannot be a *job.PayloadError.
type Keys interface {
	Keys(ctx context.Context) ([]job.Key, error)
	// CreateKey and RotateKey return the text to show with requests, tq_<id>_<secret>: it is kept nowhere.
	CreateKey(ctx context.Context, k job.Key) (job.Key, string, error)
	// RotateKey gives a key a new secret; the old one opens for grace longer.
	RotateKey(ctx context.Context, id string, grace time.Duration) (job.Key, string, error)
	RevokeKey(ctx context.Context, id string) (job.Key, error)
}

// Changes is the log of what operators did.
type Changes interface {
	// Record keeps a change; it does not wait for SQL.
	Record(c job.Change)
	// Changes lists them, newest first; job.ErrBadCursor.
	Changes(ctx context.Context, cursor string, limit int) ([]job.Change, string, error)
}
