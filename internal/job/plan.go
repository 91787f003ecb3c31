package job

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"sync/atomic"
	"time"
)

// Tier names a class of service: PAID, UNPAID, PUBLIC, or a plan an operator added. In paths it is written in lower
// case.
type Tier string

// The seed's tiers.
const (
	Paid   Tier = "PAID"
	Unpaid Tier = "UNPAID"
	Public Tier = "PUBLIC"
)

// Plan has the terms of a tier. Every process reads the plans from Redis once a second; SQL has a copy.
type Plan struct {
	Tier       Tier
	Priority   int // 1 is claimed first; at most 899, so that a score is exact in a double
	MaxRetries int // after the first attempt
	// MaxCrashes is how many attempts of a generation may lose their worker; the next crash makes a dead letter.
	// nil = each crash counts as a retry.
	MaxCrashes        *int
	HeartbeatTimeout  time.Duration
	MaxProcessingTime time.Duration
	Share             int // percent of the capacity at which this tier is refused
	OwnSlots          int // so many slots of each process run jobs of this priority only; 0 = none
	Lines             Lines
	MaxWait           time.Duration // a job that no worker claims for so long expires; 0 = it may wait for ever
	Backoff           Backoff
	TypeBackoff       map[string]Backoff // by job type, instead of Backoff
	Version           int64              // grows by one with each change
}

// LeastLease is the shortest lease that an external worker gets unless it asks for another.
const LeastLease = 5 * time.Second

// Lease returns how long the lease of an external worker lives without a heartbeat, unless the worker
// asks for another length: as long as the tier's heartbeat timeout, and at least LeastLease.
func (p Plan) Lease() time.Duration { return max(p.HeartbeatTimeout, LeastLease) }

// BackoffOf returns the backoff of a job type in this tier.
func (p Plan) BackoffOf(typ string) Backoff {
	if b, ok := p.TypeBackoff[typ]; ok {
		return b
	}
	return p.Backoff
}

// Backoff is the wait before a retry: Base * Factor^n, at most Cap, spread by +-Jitter (a fraction). Base 0 means
// no wait: the job goes back to its place at once.
type Backoff struct {
	Base   time.Duration
	Factor float64
	Cap    time.Duration
	Jitter float64
}

// DefaultBackoff returns 2 s * 2^n with a jitter of 20 %, at most 300 s.
func DefaultBackoff() Backoff {
	return Backoff{Base: 2 * time.Second, Factor: 2, Cap: 300 * time.Second, Jitter: 0.2}
}

// Delay returns the wait before retry number n (0 for the first). random is uniform in [0,1). The cap also holds
// after the jitter.
func (b Backoff) Delay(n int, random float64) time.Duration {
	if b.Base <= 0 {
		return 0
	}
	d := float64(b.Base) * math.Pow(b.Factor, float64(n))
	d = min(d, float64(b.Cap)) * (1 + b.Jitter*(2*random-1))
	return time.Duration(min(d, float64(b.Cap)))
}

// MaxOwnSlots is the most OwnSlots of a plan.
const MaxOwnSlots = 10_000

// MaxMaxWait is the longest MaxWait of a plan, 20 days.
const MaxMaxWait = 480 * time.Hour

// Expiry returns the time, in milliseconds, by which a job that may run from due on must be claimed: MaxWait after
// that, rounded up to a second, so that the jobs of a second are of one class; or the time that the submit asked for,
// if it is earlier. 0 means no time, in asked too.
func (p Plan) Expiry(asked int64, due time.Time) int64 {
	if p.MaxWait == 0 {
		return asked
	}
	latest := due.Add(p.MaxWait + time.Second - time.Millisecond).Truncate(time.Second).UnixMilli()
	if asked == 0 {
		return latest
	}
	return min(asked, latest)
}

// DefaultPlans returns the plans of the seed's three tiers, with the longest times first.
func DefaultPlans() []Plan {
	return []Plan{
		{Tier: Paid, Priority: 1, MaxRetries: 5, HeartbeatTimeout: 15 * time.Second, MaxProcessingTime: 50 * time.Second,
			Share: 100, Backoff: DefaultBackoff(), Version: 1},
		{Tier: Unpaid, Priority: 2, MaxRetries: 2, HeartbeatTimeout: 6 * time.Second, MaxProcessingTime: 20 * time.Second,
			Share: 85, Backoff: DefaultBackoff(), Version: 1},
		{Tier: Public, Priority: 3, MaxRetries: 1, HeartbeatTimeout: 3 * time.Second, MaxProcessingTime: 10 * time.Second,
			Share: 60, Backoff: DefaultBackoff(), Version: 1},
	}
}

// WithoutOldCrashes returns the plan without MaxCrashes, and true, if it is a default plan as earlier versions stored
// it: with 3, which no operator had asked for.
func (p Plan) WithoutOldCrashes() (Plan, bool) {
	if p.Version != 1 || p.MaxCrashes == nil || *p.MaxCrashes != 3 {
		return p, false
	}
	p.MaxCrashes = nil
	return p, slices.ContainsFunc(DefaultPlans(), func(of Plan) bool { return reflect.DeepEqual(p, of) })
}

var tierName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,30}$`)

// reserved has the first path segments that other routes use, which no tier may have as its name.
var reserved = map[Tier]bool{
	"JOBS": true, "API": true, "ADMIN": true, "RESULT": true, "DOCS": true, "DASHBOARD": true, "METRICS": true,
	"LIVEZ": true, "READYZ": true,
	"ACTUATOR": true, "OPENAPI": true, "SUBMIT": true, "POLL": true, "DEMO": true, "ABOUT": true, "STATIC": true,
	"DEAD": true, "WORKERS": true, "DEBUG": true,
	"LOGIN": true, "LOGOUT": true, "FLOWS": true,
}

// Check returns ErrBadPlan, with the reason, for a plan that is not valid.
func (p Plan) Check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w %q: %s", ErrBadPlan, p.Tier, fmt.Sprintf(format, a...))
	}
	switch {
	case !tierName.MatchString(string(p.Tier)):
		return bad("a tier is named by capital letters, digits and _, at most 31")
	case reserved[p.Tier]:
		return bad("the name is taken by another route")
	case p.Priority < 1 || p.Priority > 899:
		return bad("priority %d is not in 1..899", p.Priority)
	case p.MaxRetries < 0 || p.MaxRetries > 100:
		return bad("maxRetries %d is not in 0..100", p.MaxRetries)
	case p.MaxCrashes != nil && (*p.MaxCrashes < 0 || *p.MaxCrashes > 100):
		return bad("maxCrashes %d is not in 0..100", *p.MaxCrashes)
	case p.OwnSlots < 0 || p.OwnSlots > MaxOwnSlots:
		return bad("ownSlots %d is not in 0..%d", p.OwnSlots, MaxOwnSlots)
	case !p.Lines.known():
		return bad("lines %q is not off, key or owner", string(p.Lines))
	case p.HeartbeatTimeout < 100*time.Millisecond || p.HeartbeatTimeout > time.Hour:
		return bad("heartbeatTimeout %s is not in 100ms..1h", p.HeartbeatTimeout)
	case p.MaxProcessingTime < 100*time.Millisecond || p.MaxProcessingTime > 24*time.Hour:
		return bad("maxProcessingTime %s is not in 100ms..24h", p.MaxProcessingTime)
	case p.MaxWait != 0 && (p.MaxWait < time.Second || p.MaxWait > MaxMaxWait):
		return bad("maxWait %s is neither 0 nor in 1s..480h", p.MaxWait)
	case p.Share < 1 || p.Share > 100:
		return bad("share %d is not in 1..100", p.Share)
	case !p.Backoff.served():
		return bad("backoff wants base >= 0, factor >= 1, cap >= base and jitter in 0..1")
	case len(p.TypeBackoff) > 100:
		return bad("backoff for %d types, at most 100", len(p.TypeBackoff))
	}
	for typ, b := range p.TypeBackoff {
		switch {
		case !IsTypeName(typ):
			return bad("backoff of type %q: a job type %s", typ, TypeNameRule)
		case !b.served():
			return bad("backoff of type %q wants base >= 0, factor >= 1, cap >= base and jitter in 0..1", typ)
		}
	}
	return nil
}

func (b Backoff) served() bool {
	return b.Base == 0 || b.Base > 0 && b.Factor >= 1 && b.Factor <= 100 && b.Cap >= b.Base && b.Cap <= 30*24*time.Hour &&
		b.Jitter >= 0 && b.Jitter <= 1
}

// PlanBook has the plans that this process read last. The zero PlanBook is empty. It is safe for concurrent use.
type PlanBook struct{ plans atomic.Pointer[map[Tier]Plan] }

// Set replaces all plans.
func (b *PlanBook) Set(plans []Plan) {
	m := make(map[Tier]Plan, len(plans))
	for _, p := range plans {
		m[p.Tier] = p
	}
	b.plans.Store(&m)
}

// Plan returns the plan of a tier.
func (b *PlanBook) Plan(t Tier) (Plan, bool) {
	m := b.plans.Load()
	if m == nil {
		return Plan{}, false
	}
	p, ok := (*m)[t]
	return p, ok
}

// HasLines says whether any tier has lines.
func (b *PlanBook) HasLines() bool {
	m := b.plans.Load()
	if m == nil {
		return false
	}
	for _, p := range *m {
		if p.Lines.On() {
			return true
		}
	}
	return false
}

// All returns the plans by priority, best first.
func (b *PlanBook) All() []Plan {
	m := b.plans.Load()
	if m == nil {
		return nil
	}
	all := make([]Plan, 0, len(*m))
	for _, p := range *m {
		all = append(all, p)
	}
	sortPlans(all)
	return all
}

func sortPlans(plans []Plan) {
	slices.SortFunc(plans, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Tier, b.Tier))
	})
}
