package database

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Facts are what the database reports about itself.
type Facts struct {
	Version string
	Strict  bool // a value that does not fit is refused, not cut off
	Schema  int  // the newest migration that was applied
	Newest  int  // the newest migration that this build has
}

// ReadFacts reads the facts from the database. An error is job.ErrUnavailable.
func (db *DB) ReadFacts(ctx context.Context) (f Facts, err error) {
	if f.Newest, err = db.newest(); err != nil {
		return f, err
	}
	version := "SELECT VERSION()"
	if db.Read != db.Write {
		version = "SELECT 'SQLite ' || sqlite_version()"
	}
	if err := db.Read.WithContext(ctx).Raw(version).Scan(&f.Version).Error; err != nil {
		return f, Unavailable("read version", err)
	}
	schema := "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied"
	if err := db.Read.WithContext(ctx).Raw(schema).Scan(&f.Schema).Error; err != nil {
		return f, Unavailable("read schema version", err)
	}
	pool, err := db.Write.DB()
	if err != nil {
		return f, fmt.Errorf("read sql_mode: %w", err)
	}
	if f.Strict, err = db.Dialect.strict(ctx, pool); err != nil {
		return f, Unavailable("read sql_mode", err)
	}
	return f, nil
}

// newest returns the number of the last migration. The names of the files begin with it.
func (db *DB) newest() (newest int, err error) {
	files, err := fs.ReadDir(db.Dialect.migrations, ".")
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		if n, err := strconv.Atoi(number); err == nil {
			newest = max(newest, n)
		}
	}
	return newest, nil
}
