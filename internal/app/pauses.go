package app

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
)

// pauses reads the pauses from the PauseBook, and changes them in both stores.
type pauses struct {
	*job.PauseBook
	*ledger.Pauses
	view *queue.View
}

// Readers returns which version of the pauses each process has that claims jobs.
func (p pauses) Readers(ctx context.Context) ([]httpapi.PauseReader, error) {
	claimers, err := p.view.Claimers(ctx)
	readers := make([]httpapi.PauseReader, len(claimers))
	for i := range claimers {
		readers[i] = httpapi.PauseReader{Name: claimers[i].Name, Version: claimers[i].Pauses}
	}
	return readers, err
}

// lines reads the lines in Redis, and changes the limits of their keys in both stores.
type lines struct {
	*limits
	*queue.View
}

type limits = ledger.Lines

// rememberedPauses is rememberedPlans for pauses.
func (v *server) rememberedPauses(ctx context.Context) (job.Pauses, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return v.stores.archive.Pauses(ctx)
}
