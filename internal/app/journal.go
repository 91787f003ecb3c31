package app

import (
	"context"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
)

// The accept journal, as each room sees it.

// journal is the ledger's: what is read comes from the archive, what is written goes through this process' one writer of rows.
type journal struct {
	*archive.Archive
	writer *archive.Journal
}

func (j journal) Accept(ctx context.Context, rows []job.JournalRow) error {
	return j.writer.Accept(ctx, rows)
}

func (j journal) AcceptKeys(ctx context.Context, keys []job.KeyKept) error {
	return j.writer.AcceptKeys(ctx, keys)
}

// accepting is admission's.
type accepting struct {
	*archive.Journal
	ledger *ledger.Ledger
}

func (a accepting) EnsureJournaled(ctx context.Context, firsts []job.KeyKept) error {
	return a.ledger.EnsureJournaled(ctx, firsts)
}
