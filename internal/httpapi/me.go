package httpapi

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// meBody is a caller, as he may know himself.
type meBody struct {
	Open     bool      `json:"open"`     // the server has no keys
	Name     *string   `json:"name"`     // of his key; null = he has shown none
	Role     *job.Role `json:"role"`     // the same
	Admin    bool      `json:"admin"`    // he may change what is not his
	Operator bool      `json:"operator"` // he sees everybody's jobs and all figures
	Submits  bool      `json:"submits"`
	Secure   bool      `json:"secure"` // he came over TLS
	Tiers    []meTier  `json:"tiers"`  // he may submit to, best first
	Types    []string  `json:"types"`  // of jobs that he may submit

	Webhook *webhookBody `json:"webhook,omitempty"` // of who submits with a key, or to an open server
}

// webhookBody is what the receivers of a key's webhooks and callbacks verify with.
type webhookBody struct {
	Secret    string `json:"secret"`
	PublicKey string `json:"publicKey"`
}

// webhookOf is nil for a key that submits nothing, and where no key has a secret of its own.
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

// meTier is what who submits to a tier may know of it.
type meTier struct {
	Tier              job.Tier `json:"tier"`
	MaxRetries        int      `json:"maxRetries"`
	MaxProcessingTime int64    `json:"maxProcessingTimeMs"`
}

// me is GET /api/me. Who shows no key is nobody, and told so; a wrong one is refused as everywhere.
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

// secure says whether a request came over TLS: here, or as a trusted proxy says, to the first of them.
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
