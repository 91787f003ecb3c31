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

// DoorsOptions are what Doors need.
type DoorsOptions struct {
	Keyring       *Keyring
	Sessions      *Sessions
	Limiter       *Limiter
	AddressRate   int // requests a second that one address may make; 0 = any number
	AnonymousRate int // requests a second that one address may make without a key, where there are keys; 0 = none

	Idempotency     int           // Idempotency-Keys of one API key that stand at once; 0 = any number
	KeepIdempotency time.Duration // how long each of them stands
	AnonymousTotal  int           // requests a second that all addresses together may make without a key; 0 = any number
	AnonymousTypes  []string      // of jobs that may be submitted without a key; none = all
	KeyQuota        int           // living jobs of a submit key that has no quota of its own; 0 = any number
	AnonymousQuota  int           // living jobs that one address submitted without a key; 0 = any number
}

// Doors say who comes in.
type Doors struct {
	opts  DoorsOptions
	stock stock
}

// NewDoors makes them.
func NewDoors(o DoorsOptions) *Doors { return &Doors{opts: o, stock: stock{left: map[string]int{}}} }

// Wrong keys cost their address: so many at once, then one more a second. That slows nobody who has a key, for a right
// one always passes: 256 random bits are not guessed, so there is nothing to stop by locking an address, and behind one
// address there may be a thousand callers.
const (
	wrongAtOnce    = 20
	wrongPerSecond = 1
)

// Enter says who calls: authorization is the request's Authorization header, all its values; session is what a browser
// that logged in shows, and counts where that header is missing. An error is job.ErrUnauthorized, one for all that can
// be wrong with a key or a session, a *job.RateError, from an address that asks too much or was wrong too often, or for
// a session job.ErrUnavailable, where nothing can say whether it is one. A request with neither is a stranger's, or on
// an open server anybody's; one with a key on a server that has none is wrong as any other.
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
		if a := o.Limiter.Take(ctx, "failure:"+network(from), wrongPerSecond, wrongAtOnce, 1); a.RetryIn > 0 {
			return job.Caller{}, &job.RateError{In: a.RetryIn}
		}
		return job.Caller{}, job.ErrUnauthorized
	}
	if key.Role == job.RoleSubmit && key.InFlight == 0 {
		key.InFlight = o.KeyQuota
	}
	caller.Key = key
	return caller, nil
}

// CountAddress takes a request from the rate of an address; Enter does so by itself. The error is a *job.RateError.
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

// CookieName is the name of the cookie in which a browser shows its session.
func (d *Doors) CookieName(secure bool) string { return d.opts.Sessions.CookieName(secure) }

// stranger is whom the jobs of a caller without a key count for: all that come from his network are one.
func stranger(from netip.Addr) string {
	sum := sha256.Sum256([]byte("tierq stranger " + network(from)))
	return "~" + hex.EncodeToString(sum[:8])
}

var publicOnly = []job.Tier{job.Public}

// Spend takes n requests from the caller's rate: the rate of the caller's key, or, for a stranger, the rate of the
// address and the common rate of all strangers. Allowance.RetryIn > 0 means that all n are refused. Requests that the
// address' rate refuses take nothing from the common rate, so that one address cannot use up the common rate.
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

// SpendMore takes what a batch of n more entries costs beside the request that brought it: of its address' rate as
// well, which Enter took one of. An address that refuses is a limit of its own.
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

// burst is how many requests a key may make at once.
func burst(k *job.Key) int {
	if k.Burst > 0 {
		return k.Burst
	}
	return max(1, int(math.Ceil(k.Rate)))
}

// Open says whether there are no keys, so that everybody may do everything.
func (d *Doors) Open() bool { return d.opts.Keyring.Open() }

// network is whom an address counts for: itself, or of IPv6 the /64, which a single customer is given. Callers without
// an address, as through a socket, are one.
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
