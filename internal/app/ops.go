package app

import (
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/httpapi"
)

// wireOps serves the metrics and the profiles on an address of their own, if there is one; else the API serves them. Whoever is on this machine
// is asked for no key there.
func (v *server) wireOps() {
	c := v.config
	if c.OpsAddr == "" {
		return
	}
	deps := httpapi.Deps{Ready: v.ready, Metrics: v.metrics.Handler(), HealthOnly: true, Insecure: c.Insecure, TrustedProxies: c.Proxies(), Log: v.log}
	if !config.Loopback(c.OpsAddr) {
		deps.Doors = v.doors
	}
	v.ops = httpapi.NewServer("TIERQ_OPS_ADDR", c.OpsAddr, httpapi.NewHandler(deps), connectionLimits(c), v.log)
}

// connectionLimits are those of every listener.
func connectionLimits(c config.Config) httpapi.Limits {
	return httpapi.Limits{Connections: c.Connections, PerAddress: c.PerAddress, TrustedProxies: c.Proxies()}
}
