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
	body := meBody{Open: caller.Open, Admin: caller.Admin(), Operator: caller.Operator(), Submits: caller.Submits(), Secure: a.secure(c.Request)}
	if key := &caller.Key; key.ID != "" {
		body.Name, body.Role = orNull(key.Name), orNull(key.Role)
	}
	return write(c, http.StatusOK, &body)
}

// secure says whether a request came over TLS: here, or as a trusted proxy says, to the first of them.
func (a *api) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !a.trusts(plainAddr(peer.Addr())) {
		return false
	}
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(first), "https")
}
