package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

const batchColumns = "id, name, owner, tier, spec, sealed, total, completed, failed, cancelled, expired, round, " +
	"ended_round, created_at, ended_at, cancelled_at"

// batchRow is a batch. A test compares it with the migrated schema.
type batchRow struct {
	ID          string     `gorm:"type:char(36);primaryKey"`
	Name        string     `gorm:"type:varchar(200);not null"`
	Owner       string     `gorm:"type:varchar(64);not null"`
	Tier        string     `gorm:"type:varchar(31);not null"`
	Spec        []byte     `gorm:"type:mediumblob;not null"`
	Sealed      bool       `gorm:"type:tinyint;not null"`
	Total       int64      `gorm:"type:bigint;not null"`
	Completed   int64      `gorm:"type:bigint;not null"`
	Failed      int64      `gorm:"type:bigint;not null"`
	Cancelled   int64      `gorm:"type:bigint;not null"`
	Expired     int64      `gorm:"type:bigint;not null"`
	Round       int        `gorm:"type:int;not null"`
	EndedRound  int        `gorm:"type:int;not null"`
	IdemKey     *string    `gorm:"type:char(32)"`
	IdemBody    *string    `gorm:"type:char(32)"`
	CreatedAt   time.Time  `gorm:"type:datetime(6);not null"`
	EndedAt     *time.Time `gorm:"type:datetime(6)"`
	CancelledAt *time.Time `gorm:"type:datetime(6)"`
}

// TableName names the table for GORM.
func (batchRow) TableName() string { return "batches" }

// memberRow is a member of a batch.
type memberRow struct {
	JobID      string     `gorm:"type:char(36);primaryKey"`
	BatchID    string     `gorm:"type:char(36);not null"`
	Generation int        `gorm:"type:int;not null"`
	Status     string     `gorm:"type:varchar(16);not null"` // "" = the job lives
	EndedAt    *time.Time `gorm:"type:datetime(6)"`
}

// TableName names the table for GORM.
func (memberRow) TableName() string { return "batch_members" }

// errBadBatch says that the row of a batch cannot be read. Only an edit by hand leaves such a row.
var errBadBatch = errors.New("the batch is broken")

// batch returns the row's batch; errBadBatch.
func (r *batchRow) batch() (*job.Batch, error) {
	b := &job.Batch{
		ID: job.ID(r.ID), Name: r.Name, Owner: r.Owner, Tier: job.Tier(r.Tier), Sealed: r.Sealed, Total: r.Total,
		Completed: r.Completed, Failed: r.Failed, Cancelled: r.Cancelled, Expired: r.Expired, Round: r.Round,
		EndedRound: r.EndedRound, CreatedAt: r.CreatedAt, EndedAt: database.OrZero(r.EndedAt),
		CancelledAt: database.OrZero(r.CancelledAt),
	}
	if err := json.Unmarshal(r.Spec, &b.BatchSpec); err != nil {
		return nil, fmt.Errorf("read the batch %s: %w: %w", r.ID, errBadBatch, err)
	}
	return b, nil
}

// readBatch reads a batch by its id within a transaction.
func readBatch(ctx context.Context, conn gorm.ConnPool, query, id string) (*job.Batch, error) {
	var r batchRow
	there := false
	err := eachRow(ctx, conn, query, []any{id}, func(scan func(...any) error) error {
		there = true
		return scan(&r.ID, &r.Name, &r.Owner, &r.Tier, &r.Spec, &r.Sealed, &r.Total, &r.Completed, &r.Failed, &r.Cancelled,
			&r.Expired, &r.Round, &r.EndedRound, &r.CreatedAt, &r.EndedAt, &r.CancelledAt)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read batches: %w", err)
	case !there:
		return nil, job.ErrNoBatch
	}
	return r.batch()
}

// OwesOfBatches sets the function that returns the jobs that a batch owes at the end of a round. The transaction that
// ends the round writes their rows. Set it before anything is written; without it batches owe nothing.
func (a *Archive) OwesOfBatches(owes func(*job.Batch) []job.JournalRow) { a.owesOf = owes }

// addBatch writes a batch, and says whether it did: if its Idempotency-Key stands for another batch, it does not. If
// the owner then has more than job.MaxOpenBatches open ones, the error is job.ErrOpenBatches. The transaction locks the
// row of the owner's API key while it counts, so the limit is exact. TIERQ_ADMIN_KEY and callers of an open server have
// no such row: calls at the same time may exceed the limit by their number.
func (a *Archive) addBatch(ctx context.Context, conn gorm.ConnPool, b *job.Batch, spec []byte, total int,
	key job.Idempotency) (isNew bool, err error) {
	done, err := conn.ExecContext(ctx, insertBatch(&a.db.Dialect), string(b.ID), b.Name, b.Owner, string(b.Tier), spec,
		b.Sealed, total, textOrNull(key.Key), textOrNull(key.Body))
	if err != nil {
		return false, fmt.Errorf("insert batches: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	lock := "SELECT 1 FROM api_keys WHERE id = ?" + a.db.Dialect.LockRows
	if err := eachRow(ctx, conn, lock, []any{b.Owner}, func(func(...any) error) error { return nil }); err != nil {
		return false, fmt.Errorf("lock api_keys: %w", err)
	}
	err = eachRow(ctx, conn, openBatches(&a.db.Dialect), []any{b.Owner, job.MaxOpenBatches},
		func(func(...any) error) error { return job.ErrOpenBatches })
	return err == nil, err
}

// openBatches reads whether an owner has more than a number of batches that have not ended.
func openBatches(d *database.Dialect) string {
	return "SELECT 1 FROM batches" + d.By("batches_open") + " WHERE owner = ? AND ended_at IS NULL LIMIT 1 OFFSET ?"
}

// batchError wraps the error of a transaction that makes a batch.
func batchError(verb string, err error) error {
	if errors.Is(err, job.ErrAmbiguous) || errors.Is(err, job.ErrOpenBatches) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return database.Unavailable(verb, err)
}

// CreateBatch stores a batch, which is open and has no members. With an Idempotency-Key the first batch of the key
// stands, for as long as it has a row: replayed is then true, and the batch is the first one. job.ErrMismatch: the
// key came with another body. job.ErrOpenBatches.
func (a *Archive) CreateBatch(ctx context.Context, b job.Batch, key job.Idempotency) (stored job.Batch, replayed bool,
	err error) {
	spec, err := json.Marshal(b.BatchSpec)
	if err != nil {
		return b, false, fmt.Errorf("store a batch: %w", err)
	}
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		_, err := a.addBatch(ctx, conn, &b, spec, 0, key)
		return err
	})
	if err != nil {
		return b, false, batchError("store a batch", err)
	}
	if key.Key == "" {
		stored, err = a.Batch(ctx, b.ID)
		return stored, false, err
	}
	var r batchRow
	err = a.db.Write.WithContext(ctx).Raw(firstBatchOfKey, key.Key).Take(&r).Error
	if err != nil {
		return b, false, database.Unavailable("read a batch", err)
	}
	if r.ID != string(b.ID) && r.IdemBody != nil && *r.IdemBody != key.Body {
		return b, false, job.ErrMismatch
	}
	first, err := r.batch()
	if err != nil {
		return b, false, err
	}
	return *first, first.ID != b.ID, nil
}

// Batch reads a batch; job.ErrNoBatch if there is none.
func (a *Archive) Batch(ctx context.Context, id job.ID) (job.Batch, error) {
	var rows []batchRow
	if err := a.db.Read.WithContext(ctx).Raw(batchOfID, string(id)).Scan(&rows).Error; err != nil {
		return job.Batch{}, database.Unavailable("read a batch", err)
	}
	if len(rows) == 0 {
		return job.Batch{}, job.ErrNoBatch
	}
	b, err := rows[0].batch()
	if err != nil {
		return job.Batch{}, err
	}
	return *b, nil
}

// BatchOf returns the id of the batch that a job is a member of; "" if it is in no batch.
func (a *Archive) BatchOf(ctx context.Context, id job.ID) (job.ID, error) {
	var ids []string
	query := "SELECT batch_id FROM batch_members WHERE job_id = ?"
	if err := a.db.Read.WithContext(ctx).Raw(query, string(id)).Scan(&ids).Error; err != nil {
		return "", database.Unavailable("read a batch's member", err)
	}
	if len(ids) == 0 {
		return "", nil
	}
	return job.ID(ids[0]), nil
}

// SealBatch ends the adding of members: after it returns without an error, no submit adds a member. cancel also
// stores that the batch was asked to be cancelled. If no member lives, the round ends, and owed are the jobs that the
// batch owes now. A sealed batch stays as it is.
func (a *Archive) SealBatch(ctx context.Context, id job.ID, cancel bool) (b job.Batch, owed []job.JournalRow,
	err error) {
	seal := "UPDATE batches" + a.db.Dialect.ByPrimary + " SET sealed = 1 WHERE id = ?"
	if cancel {
		seal = "UPDATE batches" + a.db.Dialect.ByPrimary + " SET sealed = 1, cancelled_at = COALESCE(cancelled_at, " +
			a.db.Dialect.Now + ") WHERE id = ?"
	}
	ctx, left := withUnowed(ctx)
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		if err := execute(ctx, conn, seal, string(id)); err != nil {
			return err
		}
		var err error
		if owed, err = a.endRound(ctx, conn, string(id)); err != nil {
			return err
		}
		read, err := readBatch(ctx, conn, a.members.read, string(id))
		if err == nil {
			b = *read
		}
		return err
	})
	switch {
	case err == nil:
		a.tellUnowed(left)
		return b, owed, nil
	case errors.Is(err, job.ErrNoBatch), errors.Is(err, job.ErrAmbiguous):
		return b, owed, err
	}
	return b, nil, database.Unavailable("seal a batch", err)
}
