package client

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

const (
	batchesQuery = `SELECT id, name, sealed, total, completed, failed, cancelled, expired, round, ended_round ` +
		`FROM batches ORDER BY id`
	membersQuery = `SELECT batch_id, job_id, generation, status FROM batch_members ORDER BY batch_id, job_id`
)

// ReadBatches fills in the batches that the database has, with their members.
func ReadBatches(ctx context.Context, db *sql.DB, e *check.Evidence) error {
	e.Batches = nil
	at := map[job.ID]int{}
	err := rows(ctx, db, batchesQuery, func(scan func(...any) error) error {
		var b check.Batch
		err := scan(&b.ID, &b.Name, &b.Sealed, &b.Total, &b.Completed, &b.Failed, &b.Cancelled, &b.Expired, &b.Round,
			&b.EndedRound)
		at[b.ID] = len(e.Batches)
		e.Batches = append(e.Batches, b)
		return err
	})
	if err != nil {
		return fmt.Errorf("read batches: %w", err)
	}
	err = rows(ctx, db, membersQuery, func(scan func(...any) error) error {
		var of job.ID
		var m job.BatchMember
		if err := scan(&of, &m.ID, &m.Generation, &m.Status); err != nil {
			return err
		}
		i, known := at[of]
		if !known {
			return fmt.Errorf("the member %s is of the batch %s, which has no row", m.ID, of)
		}
		e.Batches[i].Members = append(e.Batches[i].Members, m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read members: %w", err)
	}
	return nil
}
