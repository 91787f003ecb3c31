package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/tierq/tierq/internal/auth"
	"github.com/tierq/tierq/internal/config"
)

// wireDoors makes what knows the callers. Keys expire by Redis' clock, as this process last read it.
func (v *server) wireDoors() (err error) {
	c := v.config
	v.keyring, err = auth.NewKeyring(auth.KeyringOptions{Store: v.stores.archive, Admin: c.AdminKey, Now: v.queue.Now, Log: v.log})
	if err != nil {
		return err
	}
	v.limiter = auth.NewLimiter(v.queue, v.log)
	v.doors = auth.NewDoors(auth.DoorsOptions{
		Keyring: v.keyring, Limiter: v.limiter, AddressRate: c.AddressRate, AnonymousRate: c.AnonymousRate,
		KeyQuota: c.KeyQuota, AnonymousQuota: c.AnonymousQuota,
	})
	v.keys = auth.NewKeys(auth.KeysOptions{Desk: v.stores.archive, Now: v.queue.Now, Changed: v.keyring.Load})
	v.changes = auth.NewChanges(auth.ChangesOptions{Store: v.stores.archive, Now: v.queue.Now, Log: v.log})
	return nil
}

// listens says whether this process answers more to those who show a key, so that it must know the keys.
func (v *server) listens() bool { return v.admits() || v.healthForOthers() }

// admits says whether this process serves more than its health.
func (v *server) admits() bool { return v.config.Roles.API || v.config.OpsAddr != "" }

// healthForOthers says whether this process serves its health, and nothing else, where other machines reach it.
func (v *server) healthForOthers() bool {
	return !v.config.Roles.API && !config.Loopback(v.config.Addr)
}

// checkDoors refuses to let everybody on the network do everything, unless that is what was asked for. It needs the keys.
func (v *server) checkDoors() error {
	if wide := v.config.Wide(); v.keyring.Open() && len(wide) > 0 && !v.config.Insecure {
		return fmt.Errorf("%s can be reached from other machines, and there are no API keys: everybody there could do everything. Make the first key (tierq keys "+
			"create --store --name you --role admin, or TIERQ_ADMIN_KEY with what tierq keys generate prints), stay on 127.0.0.1, or set TIERQ_INSECURE=on",
			strings.Join(wide, " and "))
	}
	return nil
}

// callers is the banner's line about who may come in, and what its examples need for that.
func (v *server) callers() (line, header string) {
	const bearer = " -H 'Authorization: Bearer tq_...'"
	switch {
	case !v.admits():
		return "", ""
	case v.keyring.Open() && len(v.config.Wide()) > 0:
		return "open: everybody who reaches it may do everything; tierq keys create --name you --role admin closes it", ""
	case v.keyring.Open():
		return "open: everybody on this machine may do everything; tierq keys create --name you --role admin closes it", ""
	case v.config.AdminKey == "":
		return fmt.Sprintf("only with an API key (%d were made)", v.keyring.Made()), bearer
	}
	return fmt.Sprintf("only with an API key (TIERQ_ADMIN_KEY, and %d that were made)", v.keyring.Made()), bearer
}

// stopping is a part that has nothing to start.
type stopping func()

func (stopping) Start(context.Context) error { return nil }

func (s stopping) Stop(context.Context) error {
	s()
	return nil
}
