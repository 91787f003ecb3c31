package job

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Role is what an API key may do.
type Role string

// The roles.
const (
	// submits jobs of its tiers and types; sees, cancels and retries only its own jobs
	RoleSubmit Role = "submit"
	// sees every job, with payload and result redacted, and all statistics; changes nothing
	RoleReadOnly Role = "read-only"
	RoleAdmin    Role = "admin" // everything
	// fetches jobs of declared queues and reports their ends; sees nothing else, unless it also submits
	RoleWorker Role = "worker"
)

// Roles lists all roles in the order of the docs.
var Roles = []Role{RoleSubmit, RoleReadOnly, RoleAdmin, RoleWorker}

// Key is an API key without its secret: the identity of a caller and its rights.
type Key struct {
	ID       string // 16 characters of a-z and 2-7; the owner of the jobs that it submits
	Name     string // for people: 1 to 100 characters
	Role     Role
	Tiers    []Tier   // tiers that it may submit to, and, with RoleWorker, whose jobs it may fetch; none = all
	Types    []string // types of jobs that it may submit; none = all
	Queues   []string // with RoleWorker: its queues, each a name or a prefix and *, declared or not; none = all declared
	Submits  bool     // with RoleWorker: it may also submit, to its queues only, as RoleSubmit does
	Leases   int      // with RoleWorker: leases that it may hold at once; 0 = any number
	Rate     float64  // requests per second, where each entry of a batch counts; 0 = unlimited
	Burst    int      // requests that may come at once; 0 = one second's worth, at least 1
	InFlight int      // accepted jobs that have not ended, at most; 0 = unlimited

	CreatedAt  time.Time
	CreatedBy  string    // the id of the key that made it; "" = the command line, or a caller of a server without keys
	RotatedAt  time.Time // when its secret was replaced; zero = never
	ExpiresAt  time.Time // zero = never
	RevokedAt  time.Time // zero = not revoked
	LastUsedAt time.Time // to within a minute; zero = never
}

// Dead says whether the key is revoked or expired.
func (k *Key) Dead(now time.Time) bool {
	return !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// StoredKey is a key as stored in SQL: with the SHA-256 of its secret and, during a rotation, of the previous
// secret.
type StoredKey struct {
	Key
	Hash     [32]byte
	OldHash  [32]byte // all zero = none
	OldUntil time.Time
}

// Caller is the sender of a request. The zero value is a caller without a key, which has no rights on a server
// that has keys.
type Caller struct {
	Key     Key        // without a key: the zero Key plus the rights that the server gives such callers
	Address netip.Addr // the caller's address, behind trusted proxies
	From    string     // of a caller without a key: whose quota its jobs count for, see Options
	Open    bool       // the server has no keys: every caller may do everything
}

// Operator says whether the caller sees all jobs and all statistics.
func (c *Caller) Operator() bool {
	return c.Open || c.Key.Role == RoleAdmin || c.Key.Role == RoleReadOnly
}

// Admin says whether the caller may change jobs and settings that are not its own.
func (c *Caller) Admin() bool { return c.Open || c.Key.Role == RoleAdmin }

// Works says whether the caller may fetch jobs and report their ends.
func (c *Caller) Works() bool { return c.Open || c.Key.Role == RoleAdmin || c.Key.Role == RoleWorker }

// MayFetch says whether the caller may fetch jobs of a queue.
func (c *Caller) MayFetch(queue string) bool {
	return c.Works() && (len(c.Key.Queues) == 0 || c.Key.names(queue))
}

// MayDeclare says whether the caller's claim declares a queue that is not declared: the server is open, or the
// caller's key names the queue or a prefix of its name.
func (c *Caller) MayDeclare(queue string) bool {
	return c.Open || c.Key.Role == RoleWorker && IsQueueName(queue) && c.Key.names(queue)
}

// names says whether one of the key's queues is this queue, or a prefix of its name and *.
func (k *Key) names(queue string) bool {
	return slices.ContainsFunc(k.Queues, func(one string) bool {
		prefix, isPrefix := strings.CutSuffix(one, "*")
		return one == queue || isPrefix && strings.HasPrefix(queue, prefix)
	})
}

// FetchTiers returns the only tiers whose jobs the caller may fetch; none = all. The tiers of an admin's key bind its
// submits only.
func (c *Caller) FetchTiers() []Tier {
	if c.Open || c.Key.Role != RoleWorker {
		return nil
	}
	return c.Key.Tiers
}

// Submits says whether the caller may submit at all.
func (c *Caller) Submits() bool {
	return c.Open || c.Key.Role == RoleAdmin || c.Key.Role == RoleSubmit || c.Key.Role == RoleWorker && c.Key.Submits
}

// MaySubmitTo says whether the caller may submit into a queue.
func (c *Caller) MaySubmitTo(queue string) bool {
	return c.Submits() && (c.Open || c.Key.Role != RoleWorker || len(c.Key.Queues) == 0 || c.Key.names(queue))
}

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

// Owner returns the owner of the caller's jobs; "" for all callers without a key.
func (c *Caller) Owner() string { return c.Key.ID }

// Sees says whether the caller may see a job with this owner.
func (c *Caller) Sees(owner string) bool {
	return c.Operator() || owner == c.Key.ID && c.Submits()
}

// Allowance is the state of a rate after a request, for the RateLimit headers.
type Allowance struct {
	Limited   bool          // the caller has a rate
	Rate      float64       // requests a second
	Burst     int           // requests at once
	Remaining int           // left of the burst
	Reset     time.Duration // until the whole burst is available again
	RetryIn   time.Duration // if refused: until this request would pass; 0 = it passed
}

// Change is one entry of the log of changes: an action of a caller with an operator's rights.
type Change struct {
	ID      int64 // 0 = not stored yet
	At      time.Time
	Actor   string // the id of the key; "" = a caller of a server without keys, or the command line
	Name    string // the name of the key at that time
	Address string // the caller's address; "" = the command line
	// key.create, key.rotate, key.revoke, key.gateway, tier.put, job.cancel, job.requeue, dead.requeue, consistency.repair
	Action  string
	Target  string // the changed object: an id, a tier, a filter
	Before  []byte // the state before, as JSON; nil = none
	After   []byte // the state after, as JSON; nil = none
	Outcome string // done, refused or unknown
	TraceID string
}

// RateError is an ErrRateLimited that says when to try again.
type RateError struct{ In time.Duration }

func (e *RateError) Error() string { return ErrRateLimited.Error() }

// Unwrap makes errors.Is(err, ErrRateLimited) true.
func (e *RateError) Unwrap() error { return ErrRateLimited }

// RetryIn returns after which time the same request would pass.
func (e *RateError) RetryIn() time.Duration { return e.In }
