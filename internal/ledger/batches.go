package ledger

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// BatchStore is SQL, which has the batches and their members, and counts the members.
type BatchStore interface {
	// CreateBatch stores a batch, unless its Idempotency-Key has a batch; then that batch is stored, and replayed is true.
	CreateBatch(ctx context.Context, b job.Batch, key job.Idempotency) (stored job.Batch, replayed bool, err error)
	// SubmitBatch stores a batch with its first members, or returns the batch that the key has and the ids of the members
	// that came with it. owed are the jobs that SQL owes Redis since then. The call may be repeated.
	SubmitBatch(ctx context.Context, b *job.Batch, members []job.JournalRow, key job.Idempotency) (stored job.Batch,
		jobs []job.ID, owed []job.JournalRow, err error)
	// Batch returns job.ErrNoBatch if there is no such batch.
	Batch(ctx context.Context, id job.ID) (job.Batch, error)
	// BatchOf returns the batch that a job is a member of, "" for none.
	BatchOf(ctx context.Context, id job.ID) (job.ID, error)
	// Batches returns a page of the batches of an owner, or of all.
	Batches(ctx context.Context, owner string, all bool, cursor string, limit int) ([]job.Batch, string, error)
	// Members returns a page of the members of a batch that have a status, or of all (nil).
	Members(ctx context.Context, batch job.ID, status *job.Status, cursor string, limit int) ([]job.BatchMember, string,
		error)
	// SealBatch ends the adding of members, and returns the jobs that the batch owes now.
	SealBatch(ctx context.Context, id job.ID, cancel bool) (b job.Batch, owed []job.JournalRow, err error)
}

// Batches makes batches and does what their owners ask of them. SQL decides; the jobs that SQL owes then are given to
// Redis at once, or by the reconciler.
type Batches struct {
	BatchStore
	ledger *Ledger
}

// NewBatches returns the batches of a store, whose members are a ledger's jobs.
func NewBatches(s BatchStore, l *Ledger) *Batches { return &Batches{s, l} }

// NewID returns an id for a new batch.
func (b *Batches) NewID() job.ID { return newBatchID(time.Now(), b.ledger.Partitions) }

// Create stores a batch under a new id. A repeat with the same key gets the first one, and replayed. job.ErrMismatch:
// the key came with another body. After job.ErrAmbiguous it may be stored.
func (b *Batches) Create(ctx context.Context, batch job.Batch, key job.Idempotency) (job.Batch, bool, error) {
	stored, replayed, err := b.CreateBatch(ctx, batch, key)
	if err != nil {
		return job.Batch{}, false, fmt.Errorf("create a batch: %w", err)
	}
	return stored, replayed, nil
}

// Submit stores a batch with its first members, whose rows name no incarnation, and gives Redis the members. Either all
// is accepted, or nothing. It returns the ids of the members in their order. A repeat with the same key gets the first
// batch, whose id is not b's, and the ids that came with it. job.ErrMismatch: the key came with another body. After
// job.ErrAmbiguous all may be accepted.
func (b *Batches) Submit(ctx context.Context, batch *job.Batch, members []job.JournalRow, key job.Idempotency) (
	stored job.Batch, jobs []job.ID, err error) {
	since, owed := time.Now(), []job.JournalRow(nil)
	stored, err = twice(ctx, flowPatience, func(ctx context.Context) (stored job.Batch, err error) {
		stored, jobs, owed, err = b.SubmitBatch(ctx, batch, members, key)
		return stored, err
	})
	if err != nil {
		return job.Batch{}, nil, fmt.Errorf("submit a batch: %w", err)
	}
	b.ledger.giveReleased(ctx, owed, since)
	return stored, jobs, nil
}

// BatchOf returns the batch that a job is a member of, "" for none. It waits for SQL only a moment.
func (b *Batches) BatchOf(ctx context.Context, id job.ID) (job.ID, error) {
	return within(ctx, archivePatience, func(ctx context.Context) (job.ID, error) { return b.BatchStore.BatchOf(ctx, id) })
}

// newBatchID returns the id of a new batch. Its partition is that of the jobs that the batch will owe.
func newBatchID(now time.Time, partitions int) job.ID {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(u[6:]) // crypto/rand never fails
	u[15] = byte(mathrand.IntN(max(partitions, 1)))
	return job.UUIDv7(u)
}

// Seal ends the adding of members. After a nil error no submit adds one. A sealed batch stays as it is. After
// job.ErrAmbiguous it may be sealed.
func (b *Batches) Seal(ctx context.Context, id job.ID) (job.Batch, error) {
	return b.seal(ctx, id, false)
}

func (b *Batches) seal(ctx context.Context, id job.ID, cancel bool) (job.Batch, error) {
	since := time.Now()
	batch, owed, err := b.SealBatch(ctx, id, cancel)
	if err != nil {
		return batch, fmt.Errorf("seal the batch %s: %w", id, err)
	}
	if len(owed) > 0 {
		if _, err := b.ledger.GiveRows(ctx, owed, since); err != nil {
			b.ledger.Log.Warn("the jobs that a batch owes could not be submitted now; the reconciler submits them",
				"batch_id", id, "err", err)
		}
	}
	return batch, nil
}

// cancelMost is how many members one Cancel cancels.
const cancelMost = 2000

// Cancel seals a batch and cancels members that live: those that wait end, those that run are asked to stop. One call
// takes some thousand members, from cursor on ("" = from the first); next is where the next call goes on, "" at the
// end. After an error some members may be cancelled, and a repeat is right.
func (b *Batches) Cancel(ctx context.Context, id job.ID, cursor string) (done job.BatchCancel, err error) {
	lives := job.Status("")
	if cursor != "" { // a wrong cursor seals nothing
		if _, _, err := b.Members(ctx, id, &lives, cursor, 1); err != nil {
			return done, fmt.Errorf("cancel the batch %s: %w", id, err)
		}
	}
	if done.Batch, err = b.seal(ctx, id, true); err != nil {
		return done, err
	}
	left := cancelMost
	for next := cursor; left > 0; {
		page, after, err := b.Members(ctx, id, &lives, next, min(left, job.MaxBatch))
		if err != nil {
			return done, fmt.Errorf("cancel the batch %s: %w", id, err)
		}
		ids := make([]job.ID, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		cancelled, asked, err := b.ledger.cancelAll(ctx, ids)
		done.Cancelled, done.Asked = done.Cancelled+cancelled, done.Asked+asked
		if err != nil {
			return done, fmt.Errorf("cancel the batch %s: %w", id, err)
		}
		left -= len(page)
		if next, done.Next = after, after; after == "" {
			break
		}
	}
	return done, nil
}
