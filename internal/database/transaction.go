package database

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// Tries is how many times a transaction is tried if a deadlock, a lock wait or another writer's rows prevent it.
const Tries = 8

// Transaction runs a transaction that locks only the rows it writes. It repeats the transaction at once after a
// deadlock or a lock wait, so do may run more than once. After an error nothing has changed, except after
// job.ErrAmbiguous: the COMMIT was sent and its answer was lost.
func (db *DB) Transaction(ctx context.Context, do func(conn gorm.ConnPool) error) (err error) {
	for try := range Tries {
		committing := false
		err = db.Write.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := do(tx.Statement.ConnPool); err != nil {
				return err
			}
			committing = true
			return nil
		})
		switch {
		case err == nil:
			return nil
		case committing && !db.ChangedNothing(err):
			return Ambiguous("commit", err)
		case db.Dialect.Verdict(err) != Conflict:
			return err
		}
		if err := Backoff(ctx, try); err != nil {
			return err
		}
	}
	return err
}

// Exec runs one statement that changes rows, and returns how many it changed. It repeats the statement after a
// deadlock or a lock wait.
func (db *DB) Exec(ctx context.Context, statement string, args []any) (changed int64, err error) {
	for try := range Tries {
		var done *gorm.DB
		if done = db.Write.WithContext(ctx).Exec(statement, args...); done.Error == nil {
			return done.RowsAffected, nil
		}
		if err = done.Error; db.Dialect.Verdict(err) != Conflict {
			return 0, err
		}
		if err := Backoff(ctx, try); err != nil {
			return 0, fmt.Errorf("try again: %w", err)
		}
	}
	return 0, err
}

// Backoff pauses before a transaction is tried again: up to 10 ms after the first try (try 0), and up to twice as
// long after each further try.
func Backoff(ctx context.Context, try int) error {
	return Pause(ctx, time.Duration(rand.Int64N(int64(10*time.Millisecond)<<try)))
}

// Pause waits for d. If ctx ends first, Pause returns its error.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
