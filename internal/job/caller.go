package job

import (
	"net/netip"
	"slices"
	"time"
)

// Role is what an API key may do.
type Role string

// The roles.
const (
	// submits jobs of its tiers and types; sees, cancels and retries its own, and nobody else's
	RoleSubmit Role = "submit"
	// sees every job, with its payload and result redacted, and all figures; changes nothing
	RoleReadOnly Role = "read-only"
	RoleAdmin    Role = "admin" // everything
	// reserved for workers that fetch their jobs over HTTP; it opens nothing in this version
	RoleWorker Role = "worker"
)

// Roles are all there are, in the order of the docs.
var Roles = []Role{RoleSubmit, RoleReadOnly, RoleAdmin, RoleWorker}

// Key is an API key without its secret: who a caller is and what he may do.
type Key struct {
	ID       string // 16 characters of a-z and 2-7; the owner of the jobs that it submits
	Name     string // for people: 1 to 100 characters
	Role     Role
	Tiers    []Tier   // it may submit to; none = all
	Types    []string // of jobs that it may submit; none = all
	Rate     float64  // requests a second, an entry of a batch counts as one; 0 = unlimited
	Burst    int      // requests at once before the rate counts; 0 = one second's worth, at least 1
	InFlight int      // jobs accepted and not ended, at most; 0 = unlimited

	CreatedAt  time.Time
	CreatedBy  string    // the id of the key that made it; "" = the command line, or a server that was still open
	RotatedAt  time.Time // its secret was replaced; zero = never
	ExpiresAt  time.Time // zero = never
	RevokedAt  time.Time // zero = it is not
	LastUsedAt time.Time // to within a minute; zero = never
}

// Dead says whether the key opens nothing any more.
func (k *Key) Dead(now time.Time) bool {
	return !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// StoredKey is a key as SQL keeps it: with the SHA-256 of its secret, and of the one before it while a rotation is
// under way.
type StoredKey struct {
	Key
	Hash     [32]byte
	OldHash  [32]byte // all zero = none
	OldUntil time.Time
}

// Caller is who makes a request. The zero value is a stranger: somebody without a key, whom a server with keys lets do
// nothing.
type Caller struct {
	Key     Key        // of a stranger and of an open server's caller: the zero Key, but for what a stranger may do
	Address netip.Addr // where he calls from, behind trusted proxies
	From    string     // of a stranger: whom his jobs count for, see Options
	Open    bool       // the server has no keys: everybody may do everything
}

// Operator says whether the caller sees everybody's jobs and all figures.
func (c *Caller) Operator() bool {
	return c.Open || c.Key.Role == RoleAdmin || c.Key.Role == RoleReadOnly
}

// Admin says whether the caller may change what is not his.
func (c *Caller) Admin() bool { return c.Open || c.Key.Role == RoleAdmin }

// Submits says whether the caller may submit at all.
func (c *Caller) Submits() bool { return c.Open || c.Key.Role == RoleAdmin || c.Key.Role == RoleSubmit }

// MaySubmit says whether the caller may submit a job of this tier and type.
func (c *Caller) MaySubmit(tier Tier, typ string) bool { return c.MayTier(tier) && c.MayType(typ) }

// MayTier says whether the caller may submit to a tier.
func (c *Caller) MayTier(tier Tier) bool {
	return c.Submits() && (len(c.Key.Tiers) == 0 || slices.Contains(c.Key.Tiers, tier))
}

// MayType says whether the caller may submit jobs of a type.
func (c *Caller) MayType(typ string) bool {
	return c.Submits() && (len(c.Key.Types) == 0 || slices.Contains(c.Key.Types, typ))
}

// Owner is whom the caller's jobs belong to; "" = to everybody without a key.
func (c *Caller) Owner() string { return c.Key.ID }

// Sees says whether the caller may know of a job with this owner.
func (c *Caller) Sees(owner string) bool {
	return c.Operator() || owner == c.Key.ID && c.Submits()
}

// Allowance is how a rate stands after a request: what RateLimit headers say.
type Allowance struct {
	Limited   bool          // there is a rate at all
	Rate      float64       // requests a second
	Burst     int           // requests at once
	Remaining int           // of the burst
	Reset     time.Duration // until the burst is whole again
	RetryIn   time.Duration // refused: until this request would pass; 0 = it passed
}

// Change is one thing that somebody with an operator's rights did, as the log of changes keeps it.
type Change struct {
	ID      int64 // 0 = not stored yet
	At      time.Time
	Actor   string // the id of the key; "" = an open server's caller, or the command line
	Name    string // of the key, as it was
	Address string // where he called from; "" = the command line
	// key.create, key.rotate, key.revoke, tier.put, job.cancel, job.requeue, dead.requeue, consistency.repair
	Action  string
	Target  string // what was changed: an id, a tier, a filter
	Before  []byte // JSON; nil = there was nothing
	After   []byte // JSON; nil = there is nothing
	Outcome string // done, refused or unknown
	TraceID string
}

// RateError is an ErrRateLimited that says when to come again.
type RateError struct{ In time.Duration }

func (e *RateError) Error() string { return ErrRateLimited.Error() }

// Unwrap makes it an ErrRateLimited.
func (e *RateError) Unwrap() error { return ErrRateLimited }

// RetryIn is when the same request would pass.
func (e *RateError) RetryIn() time.Duration { return e.In }
