package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Plan is the configuration of a tier. Times have a resolution of one millisecond.
type Plan struct {
	Tier       Tier
	Priority   int // 1 goes first
	MaxRetries int
	// MaxCrashes is how many attempts of a job may lose their worker (it died, or was silent for too long). The next
	// crash makes a dead letter; with 0 the first one does. nil, the default: a crash counts as a retry.
	MaxCrashes        *int
	HeartbeatTimeout  time.Duration
	MaxProcessingTime time.Duration
	Share             int // percent of the capacity at which the server refuses this tier
	OwnSlots          int // so many slots of each server process run only jobs of this priority
	// Lines says which jobs of the tier wait in lines by key, which share the worker time: "off", "key" (all) or
	// "owner" (all; those without a key by the API key that submits). "" is off.
	Lines       string
	MaxWait     time.Duration // a job that no worker claims for so long expires; 0 = it may wait for ever
	Backoff     Backoff
	TypeBackoff map[string]Backoff // by job type, instead of Backoff
	Version     int64              // grows with each change
}

// Backoff is the wait between a job's attempts: Base, multiplied by Factor each time, at most Cap. Jitter is the
// random part, 0 to 1.
type Backoff struct {
	Base   time.Duration
	Factor float64
	Cap    time.Duration
	Jitter float64
}

// ETag returns the tag of this version of the plan, for SetTier.
func (p Plan) ETag() string { return `"` + strconv.FormatInt(p.Version, 10) + `"` }

// The JSON forms, with times in milliseconds.
type (
	wirePlan struct {
		Tier                Tier  `json:"tier,omitempty"`
		Priority            int   `json:"priority"`
		MaxRetries          int   `json:"maxRetries"`
		HeartbeatTimeoutMs  int64 `json:"heartbeatTimeoutMs"`
		MaxProcessingTimeMs int64 `json:"maxProcessingTimeMs"`
		Share               int   `json:"share"`
		// An older server does not know these.
		MaxCrashes  *int                   `json:"maxCrashes,omitempty"`
		OwnSlots    int                    `json:"ownSlots,omitempty"`
		Lines       string                 `json:"lines,omitempty"`
		MaxWaitMs   int64                  `json:"maxWaitMs,omitempty"`
		Backoff     wireBackoff            `json:"backoff"`
		TypeBackoff map[string]wireBackoff `json:"typeBackoff,omitempty"`
		Version     int64                  `json:"version,omitempty"`
	}
	wireBackoff struct {
		BaseMs int64   `json:"baseMs"`
		Factor float64 `json:"factor"`
		CapMs  int64   `json:"capMs"`
		Jitter float64 `json:"jitter"`
	}
)

// MarshalJSON encodes the plan as the server does.
func (p Plan) MarshalJSON() ([]byte, error) {
	w := wirePlan{
		Tier: p.Tier, Priority: p.Priority, MaxRetries: p.MaxRetries, HeartbeatTimeoutMs: p.HeartbeatTimeout.Milliseconds(),
		MaxProcessingTimeMs: p.MaxProcessingTime.Milliseconds(), Share: p.Share, Backoff: p.Backoff.wire(),
		MaxCrashes: p.MaxCrashes, OwnSlots: p.OwnSlots, Lines: p.Lines, MaxWaitMs: p.MaxWait.Milliseconds(),
		Version: p.Version,
	}
	for typ, b := range p.TypeBackoff {
		if w.TypeBackoff == nil {
			w.TypeBackoff = map[string]wireBackoff{}
		}
		w.TypeBackoff[typ] = b.wire()
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes the plan as the server encodes it.
func (p *Plan) UnmarshalJSON(text []byte) error {
	var w wirePlan
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*p = Plan{
		Tier: w.Tier, Priority: w.Priority, MaxRetries: w.MaxRetries, HeartbeatTimeout: ms(w.HeartbeatTimeoutMs),
		MaxProcessingTime: ms(w.MaxProcessingTimeMs), Share: w.Share, Backoff: w.Backoff.read(), Version: w.Version,
		MaxCrashes: w.MaxCrashes, OwnSlots: w.OwnSlots, Lines: w.Lines,
		MaxWait: ms(w.MaxWaitMs),
	}
	for typ, b := range w.TypeBackoff {
		if p.TypeBackoff == nil {
			p.TypeBackoff = map[string]Backoff{}
		}
		p.TypeBackoff[typ] = b.read()
	}
	return nil
}

func (b Backoff) wire() wireBackoff {
	return wireBackoff{BaseMs: b.Base.Milliseconds(), Factor: b.Factor, CapMs: b.Cap.Milliseconds(), Jitter: b.Jitter}
}

func (b wireBackoff) read() Backoff {
	return Backoff{Base: ms(b.BaseMs), Factor: b.Factor, Cap: ms(b.CapMs), Jitter: b.Jitter}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Tiers lists the plans.
func (c *Client) Tiers(ctx context.Context) ([]Plan, error) {
	got, _, err := fetch[struct {
		Items []Plan `json:"items"`
	}](ctx, c, call{verb: "tiers", method: http.MethodGet, path: "admin/tiers"})
	return got.Items, err
}

// SetTier stores a tier's plan, on every instance at once, and returns the stored plan. etag is the Plan.ETag of
// the plan that the change is based on: SetTier returns ErrChanged if the plan has changed since. With "" it
// replaces any plan. It ignores plan's Tier and Version. With an etag it cannot create a tier; see CreateTier. The
// client does not repeat a call whose answer was lost: after ErrOutcomeUnknown, read Tiers a few seconds later.
func (c *Client) SetTier(ctx context.Context, tier Tier, plan Plan, etag string) (Plan, error) {
	return c.putTier(ctx, "set tier", tier, plan, "If-Match", etag)
}

// CreateTier adds a tier. It returns ErrChanged if the tier exists, and ErrOutcomeUnknown as SetTier does.
func (c *Client) CreateTier(ctx context.Context, tier Tier, plan Plan) (Plan, error) {
	return c.putTier(ctx, "create tier", tier, plan, "If-None-Match", "*")
}

func (c *Client) putTier(ctx context.Context, verb string, tier Tier, plan Plan, condition, value string) (Plan,
	error) {
	path, err := tierPath(tier)
	if err != nil {
		return Plan{}, fmt.Errorf("%s: %w", verb, err)
	}
	plan.Tier, plan.Version = "", 0
	body, err := json.Marshal(plan)
	if err != nil {
		return Plan{}, fmt.Errorf("%s: %w", verb, err)
	}
	return put[Plan](ctx, c, verb, "admin/tiers/"+strings.ToUpper(path), body, condition, value)
}

// put changes what the server has at a path, if the condition's header, If-Match or If-None-Match, has this value
// there; "" = no condition. The call is sent once. A repeat of a completed call would be refused as if another operator
// had made the change. Without a condition the repeat could undo another operator's later change.
func put[T any](ctx context.Context, c *Client, verb, path string, body []byte, condition, value string) (T, error) {
	k := call{
		verb: verb, method: http.MethodPut, path: path, header: http.Header{}, body: body, changes: true, once: true,
	}
	if value != "" {
		k.header.Set(condition, value)
	}
	got, _, err := fetch[T](ctx, c, k)
	return got, err
}
