package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/gormlite"
	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// Only this file knows which SQLite library is used.

const sqliteReaders = 4

func newSQLite(path string) (Dialect, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Dialect{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Dialect{}, err
	}
	// SQLite itself would make the file readable for all. The write-ahead log gets the file's mode (modeof); the -shm
	// file beside it holds page numbers, no rows.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return Dialect{}, err
	}
	if err := f.Close(); err != nil {
		return Dialect{}, err
	}
	files, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return Dialect{}, err
	}
	return Dialect{
		open:      func(g *gorm.Config) (*gorm.DB, *gorm.DB, error) { return openSQLite(path, g) },
		KeepFirst: func(string) string { return "ON CONFLICT DO NOTHING" },
		OnConflict: func(key string) string { // key may be several columns, with commas
			return "ON CONFLICT (" + key + ") DO UPDATE SET "
		},
		Offered: func(column string) string { return "excluded.`" + column + "`" },
		// LockRows is empty: a transaction that writes is the only one.
		DeleteFrom: func(table string) string { return "DELETE FROM " + table },
		By:         func(index string) string { return " INDEXED BY " + index },
		Now:        "strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'",
		Ago:        "strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || (? / 1000.0) || ' seconds') || '000'",
		Hence:      "strftime('%Y-%m-%d %H:%M:%f', 'now', '+' || (? / 1000.0) || ' seconds') || '000'",
		Elapsed: func(since, until string) string {
			return "CAST(ROUND((julianday(" + until + ") - julianday(" + since + ")) * 86400000) AS INTEGER)"
		},
		Verdict:    sqliteVerdict,
		refused:    sqliteRefused,
		strict:     func(context.Context, *sql.DB) (bool, error) { return true, nil },
		goose:      goose.DialectSQLite3,
		migrations: files,
		exclusive: func(ctx context.Context, wait turn, migrate func(*sql.DB) error) error {
			return sqliteExclusive(ctx, path, wait, migrate)
		},
	}, nil
}

// sqliteDSN returns the DSN of a file. WAL lets readers go on while the writer writes; synchronous FULL makes a
// commit survive a power loss.
func sqliteDSN(path string, pragmas ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive
	}
	q := url.Values{
		"modeof":  {path},
		"_txlock": {"immediate"},
		"_pragma": append([]string{
			"busy_timeout(5000)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(on)",
		}, pragmas...),
	}
	// SQLite does not decode a + as a space.
	query := strings.ReplaceAll(q.Encode(), "+", "%20")
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: query}).String()
}

// timeFormat makes the driver write times as text of fixed length, which sorts. Goose's own table does not use it.
const timeFormat = "&_timefmt=2006-01-02%2015:04:05.000000"

func openSQLite(path string, g *gorm.Config) (write, read *gorm.DB, err error) {
	// SQLite has only one writer anyway, and waiting in the pool is better than SQLITE_BUSY.
	if write, err = openSQLitePool(sqliteDSN(path)+timeFormat, 1, g); err != nil {
		return nil, nil, err
	}
	copied := *g
	read, err = openSQLitePool(sqliteDSN(path, "query_only(on)")+timeFormat, sqliteReaders, &copied)
	return write, read, err
}

func openSQLitePool(dsn string, conns int, g *gorm.Config) (*gorm.DB, error) {
	connector, err := (&driver.SQLite{}).OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(keeping{connector})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return gorm.Open(gormlite.OpenDB(db), g)
}

// sqliteRefused says whether the file cannot be opened or written, or the disk is full.
func sqliteRefused(err error) bool {
	return errors.Is(err, sqlite3.CANTOPEN) || errors.Is(err, sqlite3.READONLY) || errors.Is(err, sqlite3.FULL)
}

func sqliteVerdict(err error) Verdict {
	for code, v := range map[sqlite3.ErrorCode]Verdict{
		sqlite3.BUSY: Conflict, sqlite3.LOCKED: Conflict,
		sqlite3.CONSTRAINT: BadData, sqlite3.MISMATCH: BadData, sqlite3.TOOBIG: BadData,
	} {
		if errors.Is(err, code) {
			return v
		}
	}
	return Outage
}

// sqliteExclusive holds a transaction on an empty database beside the file. The operating system releases the lock
// if the process dies, and goose's own transactions on the file stay possible.
func sqliteExclusive(ctx context.Context, path string, wait turn, migrate func(*sql.DB) error) error {
	beside := path + "-migrate"
	f, err := os.OpenFile(beside, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	lock, err := driver.Open(sqliteDSN(beside, "busy_timeout(2000)")) // the later busy_timeout wins
	if err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	defer lock.Close()
	var tx *sql.Tx
	err = wait.await(ctx, func(ctx context.Context) (got bool, err error) {
		tx, err = lock.BeginTx(ctx, nil) // "immediate": it waits busy_timeout for the holder
		if err != nil && sqliteVerdict(err) == Conflict {
			return false, nil
		}
		return err == nil, err
	}, func(context.Context) string { return beside })
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction wrote nothing
	db, err := driver.Open(sqliteDSN(path))
	if err != nil {
		return err
	}
	defer db.Close()
	return migrate(db)
}
