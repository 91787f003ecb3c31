package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/auth"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/job"
)

// wireDoors makes the parts that authenticate and limit callers. Keys expire by Redis' clock, as this process last
// read it.
func (v *server) wireDoors() (err error) {
	c := v.config
	v.keyring, err = auth.NewKeyring(auth.KeyringOptions{
		Store: v.stores.access, Admin: c.AdminKey, Shut: v.shut(), Now: v.view.Now, Log: v.log,
	})
	if err != nil {
		return err
	}
	gateway, err := gatewaySecret(c, v.stores.mode == "embedded")
	if err != nil {
		return err
	}
	v.limiter = auth.NewLimiter(v.queue, v.log)
	v.sessions = auth.NewSessions(auth.SessionsOptions{
		Store: v.queue, Keyring: v.keyring, Now: v.view.Now, Instance: v.instance(),
	})
	v.doors = auth.NewDoors(auth.DoorsOptions{
		Keyring: v.keyring, Sessions: v.sessions, Limiter: v.limiter, AddressRate: c.AddressRate,
		Idempotency: c.IdempotencyLimit, KeepIdempotency: v.stores.keys(c.IdempotencyTTL),
		AnonymousRate: c.AnonymousRate, AnonymousTotal: c.StrangersRate(), AnonymousTypes: c.StrangersTypes(),
		KeyQuota: c.KeyQuota, AnonymousQuota: c.AnonymousQuota, GatewaySecret: gateway,
	})
	v.keys = auth.NewKeys(auth.KeysOptions{Desk: v.stores.access, Now: v.view.Now, Changed: v.keyring.Load})
	v.changes = auth.NewChanges(auth.ChangesOptions{Store: v.stores.access, Now: v.view.Now, Log: v.log})
	return nil
}

// gatewaySecret returns the secret that the keys' passwords for gateways are derived from. Embedded mode makes one,
// once. Several processes need a common secret, which only an operator can give them: without it there are no
// passwords.
func gatewaySecret(c config.Config, embedded bool) (string, error) {
	if c.GatewaySecret != "" || !embedded {
		return c.GatewaySecret, nil
	}
	secret, err := secretFile(filepath.Join(c.DataDir, "gateway-secret"), "")
	if err != nil {
		return "", fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	return secret, nil
}

// instance returns a function that names this server among the servers of its host: by the data that its cluster
// shares, or, for an embedded server, whose Redis is new after each start, by its folder.
func (v *server) instance() func() string {
	if v.stores.mode != "embedded" {
		return v.view.Instance
	}
	folder, err := filepath.Abs(v.config.DataDir)
	if err != nil {
		folder = v.config.DataDir
	}
	sum := sha256.Sum256([]byte(folder))
	name := hex.EncodeToString(sum[:4])
	return func() string { return name }
}

// listens says whether this process answers more to callers with a key, so that it must load the keys.
func (v *server) listens() bool { return v.admits() || v.healthForOthers() }

// admits says whether this process serves more than its health.
func (v *server) admits() bool { return v.config.Roles.API || v.config.OpsAddr != "" }

// healthForOthers says whether this process serves only its health, on an address that other machines reach.
func (v *server) healthForOthers() bool {
	return !v.config.Roles.API && !config.Loopback(v.config.Addr)
}

// shut says whether this server asks for keys before the first key exists: with shared stores it does, unless
// TIERQ_INSECURE is on.
func (v *server) shut() bool { return v.stores.mode == "external" && !v.config.Insecure }

// firstKey makes an admin key for a server that asks for keys and has none, and returns the key's text. Without it
// no caller could use the server. Of several processes that start at once exactly one makes the key. "" means that
// no key was needed, or that making it failed, which is logged.
func (v *server) firstKey(ctx context.Context) (text string) {
	if !v.config.Roles.API || !v.shut() || v.config.AdminKey != "" || v.keyring.Made() > 0 {
		return ""
	}
	id, secret, text := auth.Mint()
	key := job.StoredKey{Key: job.Key{ID: id, Name: "first start", Role: job.RoleAdmin}, Hash: auth.Hash(secret)}
	call, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	added, err := v.stores.access.AddFirstAPIKey(call, key)
	if err != nil {
		v.log.Error("the first admin key could not be made: restart the server, or run tierq keys create --store", "err", err)
		return ""
	}
	if err := v.keyring.Load(call); err != nil {
		v.log.Warn("the API keys could not be read; trying again in a second", "err", err)
	}
	if !added {
		return ""
	}
	v.log.Info("the first admin key was made; the banner shows it only this once", "key_id", id)
	made := job.Change{At: v.view.Now(), Action: "key.create", Target: id, After: shown(&key.Key), Outcome: "done"}
	if err := v.stores.access.AddChanges(call, []job.Change{made}); err != nil {
		v.log.Warn("the key was made, but its entry in the log of changes could not be written", "key_id", id, "err", err)
	}
	return text
}

// checkDoors returns an error if every caller on the network could do everything, unless TIERQ_INSECURE is on. The
// keys must be loaded.
func (v *server) checkDoors() error {
	if wide := v.config.Wide(); v.keyring.Open() && len(wide) > 0 && !v.config.Insecure {
		return fmt.Errorf("%s can be reached from other machines, and there are no API keys: every caller could do "+
			"everything. Make the first key (tierq keys "+
			"create --store --name you --role admin, or TIERQ_ADMIN_KEY with what tierq keys generate prints), stay on "+
			"127.0.0.1, or set TIERQ_INSECURE=on",
			strings.Join(wide, " and "))
	}
	return nil
}

// callers returns the banner's line about who may use the server, and the header that the banner's examples need
// for that.
func (v *server) callers() (line, header string) {
	const bearer = " -H 'Authorization: Bearer tq_...'"
	switch {
	case !v.admits():
		return "", ""
	case v.keyring.Open() && len(v.config.Wide()) > 0:
		return "open: every caller may do everything; tierq keys create --name you --role admin closes it", ""
	case v.keyring.Open():
		return "open: every caller on this machine may do everything; tierq keys create --name you --role admin closes it", ""
	case v.config.AdminKey == "":
		return fmt.Sprintf("only with an API key (%d were made)", v.keyring.Made()), bearer
	}
	return fmt.Sprintf("only with an API key (TIERQ_ADMIN_KEY, and %d that were made)", v.keyring.Made()), bearer
}

// stopping is a part that only has to be stopped.
type stopping func()

func (stopping) Start(context.Context) error { return nil }

func (s stopping) Stop(context.Context) error {
	s()
	return nil
}
