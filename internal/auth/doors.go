package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/netip"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// DoorsOptions has what Doors needs.
type DoorsOptions struct {
	Keyring       *Keyring
	Sessions      *Sessions
	Limiter       *Limiter
	AddressRate   int // requests a second of one address; 0 = any number
	AnonymousRate int // requests a second that one address may make without a key, where there are keys; 0 = none

	Idempotency     int           // Idempotency-Keys that one API key may have at once; 0 = any number
	KeepIdempotency time.Duration // how long each of them is stored
	AnonymousTotal  int           // requests a second that all addresses together may make without a key; 0 = any number
	AnonymousTypes  []string      // of jobs that may be submitted without a key; none = all
	KeyQuota        int           // living jobs of a key that submits and has no quota of its own; 0 = any number
	AnonymousQuota  int           // living jobs that one address submitted without a key; 0 = any number
	GatewaySecret   string        // passwords for gateways of other protocols are derived from it; "" = there are none
}

// Doors authenticates callers and charges their requests to their rates. It is safe for concurrent use.
type Doors struct {
	opts  DoorsOptions
	stock stock
}

// NewDoors makes Doors.
func NewDoors(o DoorsOptions) *Doors { return &Doors{opts: o, stock: stock{left: map[string]int{}}} }

// A wrong key is charged to its address: wrongAtOnce are answered at once, then wrongPerSecond per second. A right
// key from the same address always passes. The address is not locked, because 256 random bits cannot be guessed, and
// a thousand callers may share one address.
const (
	wrongAtOnce    = 20
	wrongPerSecond = 1
)

// Enter returns the caller of a request. authorization has all values of the header Authorization. session is the
// session of a logged-in browser; it counts only if that header is missing. Without either the caller is a
// stranger, or on an open server may do everything. A key is wrong also if the server has no keys at all. Errors:
// job.ErrUnauthorized for every fault of a key or a session; a *job.RateError for an address that sent too many
// requests or wrong keys; job.ErrUnavailable if the store cannot say whether the session is valid.
func (d *Doors) Enter(
	ctx context.Context,
	authorization []string,
	session string,
	from netip.Addr,
) (job.Caller, error) {
	o := &d.opts
	if err := d.CountAddress(ctx, from); err != nil {
		return job.Caller{}, err
	}
	caller := job.Caller{Address: from}
	if len(authorization) == 0 && session == "" {
		switch {
		case o.Keyring.Open():
			caller.Open = true
		case o.AnonymousRate > 0:
			caller.Key = job.Key{
				Role: job.RoleSubmit, Tiers: publicOnly, Types: o.AnonymousTypes, Rate: float64(o.AnonymousRate),
				Burst: o.AnonymousRate, InFlight: o.AnonymousQuota,
			}
			caller.From = stranger(from)
		}
		return caller, nil
	}
	key, ok, err := d.authenticate(ctx, authorization, session)
	if err != nil {
		return job.Caller{}, err
	}
	if !ok {
		if err := d.CountWrong(ctx, from); err != nil {
			return job.Caller{}, err
		}
		return job.Caller{}, job.ErrUnauthorized
	}
	caller.Key = d.bounded(key)
	return caller, nil
}

// bounded returns a key with the server's quota if it has none of its own.
func (d *Doors) bounded(key job.Key) job.Key {
	if key.InFlight == 0 && (key.Role == job.RoleSubmit || key.Role == job.RoleWorker && key.Submits) {
		key.InFlight = d.opts.KeyQuota
	}
	return key
}

// CountAddress charges a request to the rate of its address. Enter calls it itself. The error is a *job.RateError.
func (d *Doors) CountAddress(ctx context.Context, from netip.Addr) error {
	rate := d.opts.AddressRate
	if rate <= 0 {
		return nil
	}
	if a := d.opts.Limiter.Take(ctx, "address:"+network(from), float64(rate), rate, 1); a.RetryIn > 0 {
		return &job.RateError{In: a.RetryIn}
	}
	return nil
}

func (d *Doors) authenticate(ctx context.Context, authorization []string, session string) (job.Key, bool, error) {
	if len(authorization) == 0 {
		return d.opts.Sessions.Authenticate(ctx, session)
	}
	key, ok := d.opts.Keyring.Authenticate(authorization)
	return key, ok, nil
}

// CookieName returns the name of the session cookie, over TLS (secure) or without.
func (d *Doors) CookieName(secure bool) string { return d.opts.Sessions.CookieName(secure) }

// stranger returns the name that the jobs of a caller without a key count for. All callers of one network share a
// name.
func stranger(from netip.Addr) string {
	sum := sha256.Sum256([]byte("tierq stranger " + network(from)))
	return "~" + hex.EncodeToString(sum[:8])
}

var publicOnly = []job.Tier{job.Public}

// Spend charges n requests to the caller's rate. For a caller with a key that is the key's rate; for a stranger it
// is the rate of his address and the common rate of all strangers. Allowance.RetryIn > 0 means that all n are
// refused. Requests that the address's rate refuses are not charged to the common rate, so that one address cannot
// use up the common rate.
func (d *Doors) Spend(ctx context.Context, c *job.Caller, n int) job.Allowance {
	if !(c.Key.Rate > 0) {
		return job.Allowance{}
	}
	if c.Key.ID != "" {
		return d.opts.Limiter.Take(ctx, "key:"+c.Key.ID, c.Key.Rate, burst(&c.Key), n)
	}
	own := d.opts.Limiter.Take(ctx, "anonymous:"+network(c.Address), c.Key.Rate, burst(&c.Key), n)
	if total := d.opts.AnonymousTotal; total > 0 && own.RetryIn <= 0 {
		if all := d.opts.Limiter.Take(ctx, "strangers", float64(total), total, n); all.RetryIn > 0 {
			return all
		}
	}
	return own
}

// SpendMore charges n more entries of a batch. It charges them to the rate of the address as well, to which Enter
// charged the request itself. If that rate refuses them, the caller's rate is not charged.
func (d *Doors) SpendMore(ctx context.Context, c *job.Caller, n int) job.Allowance {
	if rate := d.opts.AddressRate; rate > 0 {
		if a := d.opts.Limiter.Take(ctx, "address:"+network(c.Address), float64(rate), rate, n); a.RetryIn > 0 {
			return a
		}
	}
	return d.Spend(ctx, c, n)
}

// SpendCostly charges a request that costs as much as n requests, of which Spend has taken one already. It takes at
// most half of each rate's burst, so that the request passes at some time even while its caller sends other requests.
func (d *Doors) SpendCostly(ctx context.Context, c *job.Caller, n int) job.Allowance {
	more := func(burst int) int { return max(min(n, burst/2)-1, 0) }
	if rate := d.opts.AddressRate; rate > 0 {
		if a := d.opts.Limiter.Take(ctx, "address:"+network(c.Address), float64(rate), rate, more(rate)); a.RetryIn > 0 {
			return a
		}
	}
	return d.Spend(ctx, c, more(burst(&c.Key)))
}

// burst returns how many requests a key may make at once.
func burst(k *job.Key) int {
	if k.Burst > 0 {
		return k.Burst
	}
	return max(1, int(math.Ceil(k.Rate)))
}

// Leases returns how many leases a key may hold at once; 0 = any number.
func (d *Doors) Leases(keyID string) int {
	e, _ := d.opts.Keyring.find(keyID)
	return e.Leases
}

// Open says whether there are no keys, so that everybody may do everything.
func (d *Doors) Open() bool { return d.opts.Keyring.Open() }

// network returns the name that an address is counted by: the address itself, or its /64 for IPv6, which a single
// customer gets. All callers without an address, as on a unix socket, are counted together.
func network(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().String()
	}
	if !a.IsValid() {
		return "none"
	}
	return a.String()
}
