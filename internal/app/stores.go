package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/access"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// stores are Redis and SQL, and what the banner says about them.
type stores struct {
	clients  queue.Clients
	database *database.DB
	archive  *archive.Archive
	access   *access.Store
	mode     string // embedded or external
	where    []string
	survives string        // what a restart keeps, for the banner
	keep     time.Duration // the longest time that Redis may keep ended jobs; 0 = as configured
	close    func() error
	server   service // runs with the stores: the embedded server's clock; nil = none
	embedded *keeper // what an embedded server keeps over a restart; nil = it is none
}

func openStores(c config.Config, log *slog.Logger) (*stores, error) {
	if c.Embedded() {
		return openEmbedded(c, log)
	}
	return openExternal(c, log)
}

// retention returns how long Redis keeps ended jobs: as configured, or less if the stores need that.
func (s *stores) retention(configured time.Duration) time.Duration {
	if s.keep > 0 {
		return min(configured, s.keep)
	}
	return configured
}

// keys returns how long an Idempotency-Key is kept: as configured, or less if the stores need that.
func (s *stores) keys(configured time.Duration) time.Duration {
	if s.keep > 0 {
		return min(configured, embeddedKeys)
	}
	return configured
}

const (
	bootPatience = 60 * time.Second // how long a starting process waits for stores that are still starting
	bootSayEvery = 10 * time.Second
)

// waitFor repeats try while the store is unavailable, until bootPatience is over, and logs now and then that it
// waits. An error that waiting does not mend (a wrong password, another set-up) is returned at once. setting is
// the setting that the error names.
func (v *server) waitFor(ctx context.Context, setting string, try func(ctx context.Context) error) error {
	deadline := time.Now().Add(bootPatience)
	pause, said := 100*time.Millisecond, time.Time{}
	for {
		err := try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("stopped before the store answered: %w", err)
		case v.stores.mode == "embedded":
			return err
		case errors.Is(err, job.ErrDenied), errors.Is(err, job.ErrUntrusted), !errors.Is(err, job.ErrUnavailable) &&
			!errors.Is(err, job.ErrAmbiguous):
			return fmt.Errorf("%s: %w", setting, err)
		case time.Now().After(deadline):
			return fmt.Errorf("%s: the store still fails after %s: %w", setting, bootPatience, err)
		}
		if time.Since(said) > bootSayEvery {
			said = time.Now()
			v.log.Warn("a store does not answer yet; trying again", "setting", setting, "err", err, "giving_up_in",
				time.Until(deadline).Round(time.Second))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(pause*2, 2*time.Second)
	}
}
