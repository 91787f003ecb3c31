package archive

import (
	"context"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

const (
	firstBatchOfKey = "SELECT * FROM batches WHERE idem_key = ?"
	batchOfID       = "SELECT * FROM batches WHERE id = ?"
)

func insertBatch(d *database.Dialect) string {
	return "INSERT INTO batches (id, name, owner, tier, spec, sealed, total, completed, failed, cancelled, expired, " +
		"round, ended_round, idem_key, idem_body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 1, 0, ?, ?, " +
		d.Now + ") " + d.KeepFirst("id")
}

// SubmitBatch stores a batch together with its first members: all of it, or nothing. The members' journal rows, which
// no Redis has yet, are in the same transaction; owed are these rows, and the rows of the jobs that the batch owes if
// it is sealed and has no member. With an Idempotency-Key the first batch of the key stands, as with CreateBatch, and
// jobs are the ids of the members that came with that batch, in their order. job.ErrOpenBatches: nothing is stored.
// After job.ErrAmbiguous the batch may be stored: repeating the call with the same ids tells, and then the reconciler
// gives Redis the members.
func (a *Archive) SubmitBatch(ctx context.Context, b *job.Batch, members []job.JournalRow, key job.Idempotency) (
	stored job.Batch, jobs []job.ID, owed []job.JournalRow, err error) {
	spec, err := json.Marshal(b.BatchSpec)
	if err != nil {
		return stored, nil, nil, fmt.Errorf("submit a batch: %w", err)
	}
	rows := make([]*job.JournalRow, len(members))
	for i := range members {
		rows[i] = &members[i]
		jobs = append(jobs, members[i].ID)
	}
	isNew := false
	ctx, left := withUnowed(ctx)
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		owed, isNew = nil, false
		isNew, err = a.addBatch(ctx, conn, b, spec, len(rows), key)
		if err != nil || !isNew {
			return err
		}
		if _, err := insert(ctx, conn, a.inserts, memberTable, rows); err != nil {
			return err
		}
		if err := insertChunks(ctx, conn, a.inserts, acceptedTable, rows, sizeOfRow); err != nil {
			return err
		}
		then, err := a.endRound(ctx, conn, string(b.ID))
		if err != nil {
			return err
		}
		owed = then
		read, err := readBatch(ctx, conn, a.members.read, string(b.ID))
		if err == nil {
			stored = *read
		}
		return err
	})
	switch {
	case err != nil:
		return stored, nil, nil, batchError("submit a batch", err)
	case isNew:
		a.tellUnowed(left)
		return stored, jobs, append(owed, members...), nil
	}
	stored, jobs, err = a.earlierBatch(ctx, b.ID, key)
	return stored, jobs, nil, err
}

// earlierBatch reads the batch that an Idempotency-Key stands for, or without a key the batch that an earlier call
// stored under this id, and the ids of the members that came with it. job.ErrMismatch: the key came with another body.
func (a *Archive) earlierBatch(ctx context.Context, id job.ID, key job.Idempotency) (b job.Batch, jobs []job.ID,
	err error) {
	query, arg := batchOfID, string(id)
	if key.Key != "" {
		query, arg = firstBatchOfKey, key.Key
	}
	db := a.db.Write.WithContext(ctx)
	var r batchRow
	if err := db.Raw(query, arg).Take(&r).Error; err != nil {
		return b, nil, database.Unavailable("read a batch", err)
	}
	if r.ID != string(id) && r.IdemBody != nil && *r.IdemBody != key.Body {
		return b, nil, job.ErrMismatch
	}
	read, err := r.batch()
	if err != nil {
		return b, nil, err
	}
	// Members that were added later have other ids, but may be of the same millisecond.
	const untilIndex = 18 // the digits of an id up to the number of the job
	from, to := job.BatchJobID(read.ID, 0, 0)[:untilIndex], job.BatchJobID(read.ID, job.MaxBatchJobs, 0)[:untilIndex]
	err = db.Raw("SELECT job_id FROM batch_members"+a.db.Dialect.ByPrimary+
		" WHERE job_id >= ? AND job_id < ? AND batch_id = ? ORDER BY job_id", string(from), string(to), r.ID).
		Scan(&jobs).Error
	if err != nil {
		return b, nil, database.Unavailable("read the members of a batch", err)
	}
	return *read, job.CameWith(read.ID, jobs), nil
}
