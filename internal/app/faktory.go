package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/faktory"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/schema"
)

// wireFaktory makes the listener for Faktory's clients and workers, if the settings name its address.
func (v *server) wireFaktory(submit httpapi.Submitter) error {
	c := v.config
	if !c.Faktory() {
		return nil
	}
	f := faktory.Config{
		Addr: c.FaktoryAddr, PayloadLimit: c.PayloadLimit, Connections: c.Connections, PerAddress: c.PerAddress,
		Exempt: exempt(c), DefaultKey: c.FaktoryKey, FlushWithKey: c.FaktoryFlush, Log: v.log,
		Deps: faktory.Deps{
			Submit: submit, Leases: v.leasing, Book: v.queue, Queues: v.declared(), Pauses: v.pauses,
			Counts: faktoryCounts{v},
			Jobs:   faktoryJobs{jobs{v.ledger}, v}, Plans: v.plans, Schemas: &schema.Checker{},
			Keys: v.doors, Rates: v.doors, Clock: v.view.Now,
		},
	}
	for _, t := range c.FaktoryTiers() {
		f.Tiers = append(f.Tiers, faktory.Route(t))
	}
	if c.FaktoryTLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.FaktoryTLSCert, c.FaktoryTLSKey)
		if err != nil {
			return fmt.Errorf("TIERQ_FAKTORY_TLS_CERT, TIERQ_FAKTORY_TLS_KEY: %w", err)
		}
		f.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	v.faktory = faktory.New(f)
	return nil
}

// exempt returns which addresses may have any number of connections: trusted proxies and, unless a number is set, this
// machine.
func exempt(c config.Config) func(netip.Addr) bool {
	proxies := c.Proxies()
	return func(from netip.Addr) bool {
		return c.PerAddress <= 0 && from.IsLoopback() ||
			slices.ContainsFunc(proxies, func(network netip.Prefix) bool { return network.Contains(from) })
	}
}

// faktoryCounts has the figures of INFO.
type faktoryCounts struct{ *server }

func (f faktoryCounts) QueueCounts(ctx context.Context) (map[string]job.QueueCount, error) {
	return f.view.QueueCounts(ctx)
}

func (f faktoryCounts) OldestIn(ctx context.Context, queue string) (time.Time, error) {
	return f.view.OldestIn(ctx, queue)
}

func (f faktoryCounts) CountDead(ctx context.Context, queue string) (int64, error) {
	return f.stores.archive.CountDeadIn(ctx, queue)
}

// faktoryJobs is the ledger as Faktory's clients use it.
type faktoryJobs struct {
	jobs
	server *server
}

// IsDead says whether SQL has a job as a dead letter. Until then it makes the drainer write.
func (f faktoryJobs) IsDead(ctx context.Context, id job.ID) (bool, error) {
	_, err := f.server.stores.archive.DeadLetter(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		f.server.drainer.Wake()
		return false, nil
	}
	return err == nil, err
}

// bindFaktory binds the listener's address.
func (v *server) bindFaktory(ctx context.Context) error {
	if v.faktory == nil {
		return nil
	}
	return v.faktory.Bind(ctx)
}

// faktoryURL returns the address of the listener as its clients have it; "" without one.
func (v *server) faktoryURL() string {
	switch {
	case v.faktory == nil:
		return ""
	case v.config.FaktoryTLSCert != "":
		return "tcp+tls://" + v.faktory.Bound()
	}
	return "tcp://" + v.faktory.Bound()
}

// faktoryFailed returns a channel that gets an error if the listener stops by itself.
func (v *server) faktoryFailed() <-chan error {
	if v.faktory == nil {
		return nil
	}
	return v.faktory.Failed()
}
