package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// rowWriter writes the row of a completed job, prepared and many a statement, as tierq's archive does.
type rowWriter struct {
	db       *sql.DB
	prepared map[int]*sql.Stmt
}

// The columns are the archive's. A job of the bench has run once, and has no owner.
var resultColumns = []string{"job_id", "generation", "tier", "type", "owner", "result", "retry_count", "max_retries",
	"attempts", "arrived_at", "first_tried_at",
	"started_at", "completed_at", "trace_id", "worker", "note", "queue", "recorded_at"}

func resultValues(l *job.Lease) []any { // recorded_at is an expression of the statement
	return []any{string(l.ID), l.Generation, string(l.Tier), l.Type, l.Owner, l.Result, l.RetryCount, l.MaxRetries,
		l.Attempt, l.ArrivedAt.UTC(), l.FirstTriedAt.UTC(),
		l.StartedAt.UTC(), l.EndedAt.UTC(), l.TraceID, l.Worker, "", l.Queue}
}

func (b *bare) rows(ctx context.Context) (*rowWriter, error) {
	db, err := sql.Open("mysql", b.l.mariadb.DSN(b.database))
	if err != nil {
		return nil, err
	}
	w := &rowWriter{db: db, prepared: map[int]*sql.Stmt{}}
	db.SetMaxOpenConns(1) // one writer: the statements stay prepared on its connection
	if err := w.knows(ctx, "job_results", resultColumns); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// knows holds our columns to those the archive made: with fewer, the comparison would quietly become an easier one.
func (w *rowWriter) knows(ctx context.Context, table string, columns []string) error {
	rows, err := w.db.QueryContext(ctx,
		"SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?", table)
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", table, err)
	}
	defer rows.Close()
	left := slices.Clone(columns)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		at := slices.Index(left, name)
		if at < 0 {
			return fmt.Errorf("the bare protocol does not write %s.%s", table, name)
		}
		left = slices.Delete(left, at, at+1)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s has no %v", table, left)
	}
	return nil
}

func (w *rowWriter) close() { _ = w.db.Close() } // its statements go with it

// write puts a batch into job_results, all or nothing.
func (w *rowWriter) write(ctx context.Context, batch []job.Lease) error {
	insert, err := w.insert(ctx, len(batch))
	if err != nil {
		return err
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var args []any
	for k := range batch {
		args = append(args, resultValues(&batch[k])...)
	}
	statement := tx.StmtContext(ctx, insert) //nolint:sqlclosecheck // a transaction closes its own
	written, err := statement.ExecContext(ctx, args...)
	if err != nil {
		return errors.Join(fmt.Errorf("insert: %w", err), tx.Rollback())
	}
	if n, err := written.RowsAffected(); err != nil || int(n) != len(batch) {
		return errors.Join(fmt.Errorf("%d of %d rows were new", n, len(batch)), err, tx.Rollback())
	}
	return tx.Commit()
}

func (w *rowWriter) insert(ctx context.Context, rows int) (*sql.Stmt, error) {
	if known, ok := w.prepared[rows]; ok {
		return known, nil
	}
	row := "(" + strings.Repeat("?,", len(resultColumns)-1) + "CURRENT_TIMESTAMP(6))"
	text := "INSERT INTO job_results (" + strings.Join(resultColumns, ",") + ") VALUES " +
		strings.Repeat(row+",", rows-1) + row + " ON DUPLICATE KEY UPDATE job_id=job_id"
	s, err := w.db.PrepareContext(ctx, text) // close ends it with its connection
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	w.prepared[rows] = s
	return s, nil
}
