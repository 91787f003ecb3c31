package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// stores are the two places where jobs live, and what to tell the user about them.
type stores struct {
	clients  queue.Clients
	archive  *archive.Archive
	mode     string // embedded or external
	where    []string
	survives string // what a restart keeps
	close    func() error
	server   service // runs with the stores: the embedded server's clock; nil = none
}

func openStores(c config.Config, log *slog.Logger) (*stores, error) {
	if c.Embedded() {
		return openEmbedded(c, log)
	}
	return openExternal(c, log)
}

// bootPatience is how long a starting process waits for stores that are still booting themselves.
const bootPatience = 60 * time.Second

// waitFor repeats try while the store is unavailable, saying so now and then, until bootPatience is over.
func waitFor(ctx context.Context, what string, log *slog.Logger, try func(ctx context.Context) error) error {
	deadline := time.Now().Add(bootPatience)
	pause := 100 * time.Millisecond
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := try(call)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: stopped before it was up: %w", what, err)
		}
		if !errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous) || time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", what, err)
		}
		log.Warn("not there yet, trying again", "store", what, "err", err, "for", time.Until(deadline).Round(time.Second).String())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*2, 2*time.Second)
	}
}
