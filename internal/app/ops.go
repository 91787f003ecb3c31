package app

import (
	"strings"

	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/httpapi"
)

// wireOps serves the metrics and the profiles on an address of their own, if there is one; otherwise the API
// serves them. On a loopback address no key is needed.
func (v *server) wireOps() {
	c := v.config
	if c.OpsAddr == "" {
		return
	}
	deps := httpapi.Deps{Ready: v.ready, Metrics: v.metrics.Handler(), HealthOnly: true, Insecure: c.Insecure,
		TrustedProxies: c.Proxies(), Log: v.log}
	if !config.Loopback(c.OpsAddr) {
		deps.Doors = v.doors
	}
	if !c.Roles.API && c.OpsAddr == c.Addr && !strings.HasSuffix(c.Addr, ":0") { // one listener is both
		deps.Overview = v.overview()
	}
	v.ops = httpapi.NewServer("TIERQ_OPS_ADDR", c.OpsAddr, httpapi.NewHandler(deps), connectionLimits(c), v.log)
}

// wireHealth serves only the health of a process without the api role, on TIERQ_ADDR, where an API would be: a
// container's health check asks there, whatever the roles are. If other machines reach the address, probes may use
// any host name and get one word; the details need an operator's key.
func (v *server) wireHealth() {
	c := v.config
	if c.Roles.API || c.OpsAddr == c.Addr && v.ops != nil && !strings.HasSuffix(c.Addr, ":0") {
		return
	}
	deps := httpapi.Deps{
		Ready:          v.ready,
		Overview:       v.overview(),
		HealthOnly:     true,
		Insecure:       c.Insecure,
		TrustedProxies: c.Proxies(),
		Log:            v.log,
	}
	if v.healthForOthers() {
		deps.Doors, deps.Insecure, deps.OneWord = v.doors, true, true
	}
	v.health = httpapi.NewServer("TIERQ_ADDR", c.Addr, httpapi.NewHandler(deps), connectionLimits(c), v.log)
}

// connectionLimits are the limits of every listener.
func connectionLimits(c config.Config) httpapi.Limits {
	return httpapi.Limits{Connections: c.Connections, PerAddress: c.PerAddress, TrustedProxies: c.Proxies()}
}
