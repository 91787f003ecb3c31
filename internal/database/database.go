// Package database opens the SQL database, MySQL (or MariaDB) or a SQLite file, through GORM. It has the
// connections, the differences between the two dialects, the migrations of the schema, and the meaning of the
// database's errors. The packages that store rows, archive and access, bring their own statements.
//
// No package calls GORM's Save, which would overwrite the row of another writer, or AutoMigrate: the versioned
// files in migrations define the schema.
package database

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// Options say where the database is. Exactly one of MySQLDSN and SQLitePath is set.
type Options struct {
	MySQLDSN   string // in go-sql-driver's form; mysqlConfig sets what it leaves out
	SQLitePath string // created with mode 0600 if it does not exist, its folder with 0700
	Log        *slog.Logger

	// Roots are the authorities that may sign MySQL's certificate if the DSN says tls=true; nil = the system's.
	Roots *x509.CertPool
}

// ErrNotStrict says that the server's sql_mode lets it cut off silently a value that does not fit.
var ErrNotStrict = errors.New("sql_mode is not strict: the server would cut off silently what does not fit; set " +
	"STRICT_TRANS_TABLES")

// DB is an open database. It is safe for concurrent use.
type DB struct {
	Write   *gorm.DB
	Read    *gorm.DB // SQLite: a pool of readers besides the one writing connection; MySQL: the same as Write
	Dialect Dialect
	Log     *slog.Logger

	turn    turn
	checked atomic.Bool // sql_mode was read and is strict
	down    atomic.Bool
	refuses atomic.Bool // the last write failed
}

// Open makes a DB. It does not connect: Ping checks whether the database answers, Migrate makes the tables.
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

// gormConfig turns off what tierq does not need of GORM: its own transaction around single statements, and the
// ping when it opens. Its cache of prepared statements is off too: each connection has its own (see keeping).
func gormConfig(log *slog.Logger) *gorm.Config {
	return &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 gormLog{log},
	}
}

// Ping checks that the database answers. It returns ErrNotStrict for a server that would silently cut off values,
// and job.ErrUnavailable for a database that does not answer.
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

// Down reports whether the database cannot serve: the last write or ping failed. A database that answers but takes
// no rows (a full disk, a read-only server) stays down until a write succeeds. While nothing waits to be written,
// the writer of outcomes tries a write that changes nothing.
func (db *DB) Down() bool { return db.down.Load() }

// answered stores the result of a ping. A successful ping does not end Down after a failed write.
func (db *DB) answered(err error) {
	if err != nil || !db.refuses.Load() {
		db.down.Store(err != nil)
	}
}

// Wrote stores the result of a write, and returns whether the database was down before.
func (db *DB) Wrote(err error) (wasDown bool) {
	db.refuses.Store(err != nil)
	return db.down.Swap(err != nil)
}

// Close closes the connections. With MySQL that always succeeds: the driver fails only to tell the server so, on a
// connection that the server or the network has ended before.
func (db *DB) Close() error {
	var errs []error
	for _, g := range []*gorm.DB{db.Write, db.Read} {
		pool, err := g.DB()
		if err == nil {
			err = pool.Close() // a second Close is harmless
		}
		errs = append(errs, err)
	}
	if db.Dialect.goose == goose.DialectMySQL {
		return nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}
