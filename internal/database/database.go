// Package database opens the SQL database, MySQL (or MariaDB) or a SQLite file, through GORM: its connections, what the
// two dialects say differently, the migrations of the schema, and what an error of the database means. The rooms that
// have rows in it, archive and access, bring their own statements.
//
// No room ever calls GORM's Save, which would overwrite the row of another writer, or its AutoMigrate: the schema is
// the versioned files in migrations.
package database

import (
	"context"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"gorm.io/gorm"
)

// Options say where the database is: exactly one of MySQLDSN and SQLitePath.
type Options struct {
	MySQLDSN   string // go-sql-driver's form; what it leaves out is set (see mysql.go)
	SQLitePath string // created with mode 0600 if it is not there, its folder with 0700
	Log        *slog.Logger

	// Roots are the authorities that may sign MySQL's certificate, where the DSN says tls=true; nil = the system's.
	Roots *x509.CertPool
}

// ErrNotStrict says that the server's sql_mode lets a value that does not fit be cut off silently.
var ErrNotStrict = errors.New("sql_mode is not strict: the server would cut off silently what does not fit; set " +
	"STRICT_TRANS_TABLES")

// DB is an open database. It is safe for concurrent use.
type DB struct {
	Write   *gorm.DB
	Read    *gorm.DB // SQLite: a pool beside the one writing connection; MySQL: the same as Write
	Dialect Dialect
	Log     *slog.Logger

	turn    turn
	checked atomic.Bool // sql_mode was read and is strict
	down    atomic.Bool
	refuses atomic.Bool // the last write failed
}

// Open makes a DB. It does not connect: Ping says whether the database answers, Migrate makes the tables.
func Open(o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	db := &DB{Log: o.Log, turn: newTurn(o.Log)}
	var err error
	switch {
	case (o.MySQLDSN == "") == (o.SQLitePath == ""):
		return nil, errors.New("open database: it wants either a MySQL DSN or a SQLite path")
	case o.MySQLDSN != "":
		db.Dialect, err = newMySQL(o.MySQLDSN, o.Roots, o.Log)
	default:
		db.Dialect, err = newSQLite(o.SQLitePath)
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if db.Write, db.Read, err = db.Dialect.open(gormConfig(o.Log)); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}

// gormConfig keeps GORM out of the way: no transaction of its own around single statements, no ping from the
// constructor. The cache of statements is bounded; what is prepared is of a few fixed sizes (see Sizes), so that it
// never evicts.
func gormConfig(log *slog.Logger) *gorm.Config {
	return &gorm.Config{
		SkipDefaultTransaction: true,
		PrepareStmt:            true,
		PrepareStmtMaxSize:     256,
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 gormLog{log},
	}
}

// Ping asks the database for an answer. It returns ErrNotStrict for a server that would silently cut off values, and an
// error that is job.ErrUnavailable for one that does not answer.
func (db *DB) Ping(ctx context.Context) error {
	err := db.ping(ctx)
	if ctx.Err() == nil {
		db.answered(err)
	}
	return err
}

func (db *DB) ping(ctx context.Context) error {
	pool, err := db.Write.DB()
	if err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	if err := pool.PingContext(ctx); err != nil {
		return Unavailable("ping database", err)
	}
	if db.checked.Load() {
		return nil
	}
	strict, err := db.Dialect.strict(ctx, pool)
	if err != nil {
		return Unavailable("read sql_mode", err)
	}
	if !strict {
		return ErrNotStrict
	}
	db.checked.Store(true)
	return nil
}

// Down reports whether the database cannot serve: the last write or ping failed. A database that answers but takes no
// rows (a full disk, a read-only one) stays down until a write succeeds; while nothing waits to be written the writer
// of outcomes tries one that changes nothing.
func (db *DB) Down() bool { return db.down.Load() }

// answered takes the outcome of a ping: a good one says nothing about writes.
func (db *DB) answered(err error) {
	if err != nil || !db.refuses.Load() {
		db.down.Store(err != nil)
	}
}

// Wrote takes the outcome of a write, and says whether the database was down before.
func (db *DB) Wrote(err error) (wasDown bool) {
	db.refuses.Store(err != nil)
	return db.down.Swap(err != nil)
}

// Close closes the connections.
func (db *DB) Close() error {
	var errs []error
	for _, g := range []*gorm.DB{db.Write, db.Read} {
		pool, err := g.DB()
		if err == nil {
			err = pool.Close() // safe twice
		}
		if errors.Is(err, driver.ErrBadConn) { // the server closed that connection before
			err = nil
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}
