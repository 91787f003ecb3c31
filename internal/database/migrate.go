package database

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/tierq/tierq/internal/failpoint"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings the schema to the newest version. Any number of processes may call it at once: one migrates, the
// others wait and find nothing to do. A waiting process writes to the log every few seconds and gives up after a
// minute. Migrate returns job.ErrUnavailable if the database does not answer, if another process migrates for too
// long, or if a migration failed. Another call goes on where it stopped.
func (db *DB) Migrate(ctx context.Context) error {
	err := db.Exclusive(ctx, func(pool *sql.DB) error {
		if err := makeVersions(ctx, db.Dialect.goose, pool); err != nil {
			return err
		}
		p, err := goose.NewProvider(db.Dialect.goose, pool, db.Dialect.migrations,
			goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return err
		}
		done, err := p.Up(ctx)
		for _, m := range done {
			db.Log.Info("schema migrated", "version", m.Source.Version, "took", m.Duration)
		}
		return err
	})
	if err != nil {
		return Unavailable("migrate database", err)
	}
	return nil
}

// Exclusive runs do with a connection pool whose statements may take long, while no other process does the same.
// It waits for the others as Migrate does.
func (db *DB) Exclusive(ctx context.Context, do func(*sql.DB) error) error {
	return db.Dialect.exclusive(ctx, db.turn, do)
}

// makeVersions makes goose's table of versions and its first row, version 0. Goose would do that itself, but MySQL
// commits the table before the row. After a start that was killed in between, goose would refuse the table without
// a row at every later start.
func makeVersions(ctx context.Context, dialect goose.Dialect, db *sql.DB) error {
	store, err := database.NewStore(dialect, goose.DefaultTablename)
	if err != nil {
		return err
	}
	if known, err := store.ListMigrations(ctx, db); err == nil && len(known) > 0 {
		return nil
	} else if err == nil {
		return store.Insert(ctx, db, database.InsertRequest{Version: 0})
	}
	// There is no table yet. If instead the database is unreachable, making the table fails too, with that error.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("make the table of versions: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	if err := store.CreateVersionTable(ctx, tx); err != nil {
		return err
	}
	failpoint.Hit("versions.made")
	if err := store.Insert(ctx, tx, database.InsertRequest{Version: 0}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("make the table of versions: %w", err)
	}
	return nil
}

// errBusy says that another process kept the migration lock for longer than this process waits.
var errBusy = errors.New("another process holds the migration lock")

// turn says how a process waits for its turn to migrate.
type turn struct {
	patience time.Duration // how long the process waits in all
	sayEvery time.Duration // how long it waits between two lines of the log
	say      func(msg string, args ...any)
}

func newTurn(log *slog.Logger) turn {
	return turn{patience: time.Minute, sayEvery: 4 * time.Second, say: log.Warn}
}

// await calls try until try gets the lock. Each try may wait for the lock itself, for a second or two. holder
// describes the process that has the lock.
func (t turn) await(
	ctx context.Context, try func(context.Context) (bool, error), holder func(context.Context) string,
) error {
	began := time.Now()
	var said time.Time
	for {
		got, err := try(ctx)
		if err == nil && !got {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got {
			return nil
		}
		waited := time.Since(began)
		if waited >= t.patience {
			return fmt.Errorf("%w (%s) for more than %s: it migrates a large table, or hangs",
				errBusy, holder(ctx), t.patience)
		}
		if time.Since(said) >= t.sayEvery {
			said = time.Now()
			t.say("another process migrates the schema, waiting for it", "holder", holder(ctx),
				"waited", waited.Round(time.Second).String(),
				"giving_up_in", (t.patience - waited).Round(time.Second).String())
		}
	}
}
