// Package archive keeps in SQL what Redis has decided: the outcome of every job that ended, its result or dead letter, and the
// history of its attempts. It is a projection: whatever it misses, the outbox still has, and writing an outcome again changes
// nothing. MySQL (or MariaDB) in external mode, a SQLite file in embedded mode, both through GORM.
//
// Nothing here ever calls GORM's Save, which would overwrite the row of another writer, or its AutoMigrate: the schema is the
// versioned files in migrations.
package archive

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

// Options say where the archive is: exactly one of MySQLDSN and SQLitePath.
type Options struct {
	MySQLDSN   string // go-sql-driver's form; what it leaves out is set (see mysql.go)
	SQLitePath string // created with mode 0600 if it is not there, its folder with 0700
	Log        *slog.Logger

	// Roots are the authorities that may sign MySQL's certificate, where the DSN says tls=true; nil = the system's.
	Roots *x509.CertPool

	// Journal keeps the accept journal: the transaction that records outcomes also removes their rows from it. (What puts rows into it is a
	// Journal.)
	Journal bool
}

// ErrNotStrict says that the server's sql_mode lets a value that does not fit be cut off silently.
var ErrNotStrict = errors.New("sql_mode is not strict: the server would cut off silently what does not fit; set STRICT_TRANS_TABLES")

// Archive is the SQL side. It is safe for concurrent use.
type Archive struct {
	write   *gorm.DB
	read    *gorm.DB // SQLite: a pool beside the one writing connection; MySQL: the same as write
	dialect dialect
	inserts inserts
	journal bool
	log     *slog.Logger
	turn    turn
	checked atomic.Bool // sql_mode was read and is strict
	down    atomic.Bool
	refuses atomic.Bool // the last write failed
}

// Open makes an archive. It does not connect: Ping says whether the database answers, Migrate makes the tables.
func Open(o Options) (*Archive, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var d dialect
	var err error
	switch {
	case (o.MySQLDSN == "") == (o.SQLitePath == ""):
		return nil, errors.New("open archive: it wants either a MySQL DSN or a SQLite path")
	case o.MySQLDSN != "":
		d, err = newMySQL(o.MySQLDSN, o.Roots, o.Log)
	default:
		d, err = newSQLite(o.SQLitePath)
	}
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	a := &Archive{dialect: d, log: o.Log, journal: o.Journal, inserts: buildInserts(d), turn: newTurn(o.Log)}
	if a.write, a.read, err = d.open(gormConfig(o.Log)); err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	return a, nil
}

// gormConfig keeps GORM out of the way: no transaction of its own around single statements, no ping from the constructor.
// The cache of statements is bounded; what is prepared is of a few fixed sizes (see insert.go), so that it never evicts.
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

// Ping asks the database for an answer. It returns ErrNotStrict for a server that would silently cut off values, and an error
// that is job.ErrUnavailable for one that does not answer.
func (a *Archive) Ping(ctx context.Context) error {
	err := a.ping(ctx)
	if ctx.Err() == nil {
		a.answered(err)
	}
	return err
}

func (a *Archive) ping(ctx context.Context) error {
	db, err := a.write.DB()
	if err != nil {
		return fmt.Errorf("ping archive: %w", err)
	}
	if err := db.PingContext(ctx); err != nil {
		return unavailable("ping archive", err)
	}
	if a.checked.Load() {
		return nil
	}
	strict, err := a.dialect.strict(ctx, db)
	if err != nil {
		return unavailable("read sql_mode", err)
	}
	if !strict {
		return ErrNotStrict
	}
	a.checked.Store(true)
	return nil
}

// Down reports whether the database cannot serve: the last write or ping failed. A database that answers but takes no rows (a full disk, a
// read-only one) stays down until a write succeeds; while nothing waits to be written the writer tries one that changes nothing.
func (a *Archive) Down() bool { return a.down.Load() }

// answered takes the outcome of a ping: a good one says nothing about writes.
func (a *Archive) answered(err error) {
	if err != nil || !a.refuses.Load() {
		a.down.Store(err != nil)
	}
}

// wrote takes the outcome of a write, and says whether the database was down before.
func (a *Archive) wrote(err error) (wasDown bool) {
	a.refuses.Store(err != nil)
	return a.down.Swap(err != nil)
}

// probeWrite asks for a write that changes nothing.
func (a *Archive) probeWrite(ctx context.Context) error {
	_, err := a.mark(ctx, "DELETE FROM idempotency_keys WHERE idem_key = ''", nil)
	if err != nil {
		err = unavailable("probe", err)
	}
	if ctx.Err() == nil {
		a.wrote(err)
	}
	return err
}

// Close closes the connections. Stop the Writer first.
func (a *Archive) Close() error {
	var errs []error
	for _, g := range []*gorm.DB{a.write, a.read} {
		db, err := g.DB()
		if err == nil {
			err = db.Close() // safe twice
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close archive: %w", err)
	}
	return nil
}

func unavailable(verb string, err error) error {
	if untrusted(err) {
		return fmt.Errorf("%s: %w: %w: %w", verb, job.ErrUnavailable, job.ErrUntrusted, err)
	}
	if denied(err) {
		return fmt.Errorf("%s: %w: %w: %w", verb, job.ErrUnavailable, job.ErrDenied, err)
	}
	return fmt.Errorf("%s: %w: %w", verb, job.ErrUnavailable, err)
}
