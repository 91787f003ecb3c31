package ledger

import (
	"context"
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// sealing is a store of batches that notes seals, and refuses every cursor.
type sealing struct {
	BatchStore
	seals int
}

func (s *sealing) SealBatch(context.Context, job.ID, bool) (job.Batch, []job.JournalRow, error) {
	s.seals++
	return job.Batch{}, nil, nil
}

func (*sealing) Members(_ context.Context, _ job.ID, _ *job.Status, cursor string, _ int) ([]job.BatchMember, string,
	error) {
	if cursor != "" {
		return nil, "", job.ErrBadCursor
	}
	return nil, "", nil
}

// A cancel with a wrong cursor is refused before it seals the batch.
func TestBatches_CancelWithAWrongCursor(t *testing.T) {
	t.Parallel()
	store := &sealing{}
	b := NewBatches(store, &Ledger{})
	if _, err := b.Cancel(t.Context(), "b", "x"); !errors.Is(err, job.ErrBadCursor) || store.seals != 0 {
		t.Errorf("%v after %d seals", err, store.seals)
	}
	if _, err := b.Cancel(t.Context(), "b", ""); err != nil || store.seals != 1 {
		t.Errorf("%v after %d seals", err, store.seals)
	}
}
