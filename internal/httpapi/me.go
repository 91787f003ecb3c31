package httpapi

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// meBody describes a caller to himself.
type meBody struct {
	Open     bool      `json:"open"`     // the server has no keys
	Name     *string   `json:"name"`     // of the caller's key; null = no key was shown
	Role     *job.Role `json:"role"`     // the same
	Admin    bool      `json:"admin"`    // the caller may change things that are not his own
	Operator bool      `json:"operator"` // the caller sees all jobs and all figures
	Submits  bool      `json:"submits"`
	Secure   bool      `json:"secure"` // the request came over TLS
	Tiers    []meTier  `json:"tiers"`  // that the caller may submit to, best first
	Types    []string  `json:"types"`  // of jobs that the caller may submit

	Queues []string `json:"queues,omitempty"` // to which a worker's key is bound
	Leases int      `json:"leases,omitzero"`  // that a worker's key may hold at once; 0 = any number

	Webhook *webhookBody `json:"webhook,omitempty"` // for callers who submit with a key, or to an open server
}

// webhookBody has the secret and the public key with which receivers verify a key's webhooks and callbacks.
type webhookBody struct {
	Secret    string `json:"secret"`
	PublicKey string `json:"publicKey"`
}

// webhookOf returns what a caller's receivers verify with; nil if the caller may not submit, has shown no key, or
// has no secret.
func (a *api) webhookOf(caller *job.Caller) *webhookBody {
	if a.WebhookKeys == nil || !caller.Submits() || anonymous(caller) {
		return nil
	}
	secret, public := a.WebhookKeys(caller.Owner())
	if secret == "" {
		return nil
	}
	return &webhookBody{secret, public}
}

// meTier is the part of a plan that a submitter to the tier may know.
type meTier struct {
	Tier              job.Tier `json:"tier"`
	MaxRetries        int      `json:"maxRetries"`
	MaxProcessingTime int64    `json:"maxProcessingTimeMs"`
}

// me serves GET /api/me. The answer to a caller without a key describes a stranger. A wrong key is refused as
// everywhere.
func (a *api) me(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	caller, err := a.caller(c.Request)
	if err != nil {
		return err
	}
	body := meBody{Open: caller.Open, Admin: caller.Admin(), Operator: caller.Operator(), Submits: caller.Submits(),
		Secure: a.secure(c.Request)}
	if key := &caller.Key; key.ID != "" {
		body.Name, body.Role = orNull(key.Name), orNull(key.Role)
	}
	body.Tiers, body.Types = a.tiersOf(&caller), a.typesOf(&caller)
	body.Queues, body.Leases = caller.Key.Queues, caller.Key.Leases
	body.Webhook = a.webhookOf(&caller)
	return write(c, http.StatusOK, &body)
}

func (a *api) tiersOf(caller *job.Caller) []meTier {
	tiers := []meTier{}
	for _, p := range a.Plans.All() {
		if caller.MayTier(p.Tier) {
			tiers = append(tiers, meTier{p.Tier, p.MaxRetries, p.MaxProcessingTime.Milliseconds()})
		}
	}
	return tiers
}

func (a *api) typesOf(caller *job.Caller) []string {
	types := []string{}
	for _, typ := range a.Types.Types() {
		if mayType(caller, typ) == nil {
			types = append(types, typ)
		}
	}
	return types
}

// secure reports whether a request came over TLS: to this server, or, if a trusted proxy says so, to the first
// proxy.
func (a *api) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if len(a.TrustedProxies) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !a.trusts(plainAddr(peer.Addr())) {
		return false
	}
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(first), "https")
}
