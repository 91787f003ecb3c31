package httpapi

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// gatewayBody has what a client of another protocol authenticates with. On an open server KeyID and Password are
// missing: its clients need none.
type gatewayBody struct {
	KeyID      string `json:"keyId,omitzero"`
	Password   string `json:"password,omitzero"`
	FaktoryURL string `json:"faktoryUrl"`
}

// keyGateway serves POST /admin/keys/{id}/gateway: the present gateway password of a key.
func (a *api) keyGateway(c *gin.Context) error {
	id, err := a.keyNamed(c)
	if err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	if a.Gateways == nil {
		return job.ErrNoGateway
	}
	password, err := a.Gateways.GatewayPassword(c.Request.Context(), id)
	a.changed(c, "key.gateway", id, nil, nil, err)
	if err != nil {
		return err
	}
	return a.showGateway(c, id, password)
}

// ownGateway serves POST /api/me/gateway: the gateway password that belongs to the key in the header Authorization. A
// browser's session is refused, because it ends and the password would not.
func (a *api) ownGateway(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	caller := callerOf(c)
	if caller.Open {
		return a.showGateway(c, "", "")
	}
	authorization, session := a.shown(c.Request)
	switch {
	case session != "":
		return &problem{kind: forbidden,
			detail: "a browser's session may not do this: send the key itself in the header Authorization"}
	case a.Gateways == nil:
		return job.ErrNoGateway
	}
	password, err := a.Gateways.OwnGatewayPassword(authorization)
	a.changed(c, "key.gateway", caller.Owner(), nil, nil, err)
	if err != nil {
		return err
	}
	return a.showGateway(c, caller.Owner(), password)
}

// noBody refuses a body with members.
func (a *api) noBody(c *gin.Context) error {
	body, err := a.readBody(c)
	if err == nil && body != nil {
		err = noFields.read(body, &struct{}{})
	}
	return err
}

func (a *api) showGateway(c *gin.Context, id, password string) error {
	scheme, listens := "tcp", ""
	if a.FaktoryURL != nil {
		if before, after, found := strings.Cut(a.FaktoryURL(), "://"); found {
			scheme, listens = before, after
		}
	}
	address := url.URL{Scheme: scheme, Host: faktoryHost(listens, c.Request.Host)}
	if id != "" {
		address.User = url.UserPassword(id, password)
	}
	return write(c, http.StatusOK, &gatewayBody{KeyID: id, Password: password, FaktoryURL: address.String()})
}

// faktoryPort is the port of the Faktory protocol.
const faktoryPort = "7419"

// faktoryHost returns the host:port at which a client that reached this server as host reaches the Faktory gateway.
func faktoryHost(address, host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	name, port, _ := net.SplitHostPort(address) // of an address that is not set both are empty
	if ip, err := netip.ParseAddr(name); err == nil && ip.IsUnspecified() {
		name = ""
	}
	return net.JoinHostPort(cmp.Or(name, host), cmp.Or(port, faktoryPort))
}
