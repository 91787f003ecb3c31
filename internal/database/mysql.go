package database

import (
	"context"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

const mysqlConns = 8

func newMySQL(dsn string, roots *x509.CertPool, log *slog.Logger) (Dialect, error) {
	cfg, err := mysqlConfig(dsn, roots, log)
	if err != nil {
		return Dialect{}, err
	}
	files, err := fs.Sub(migrations, "migrations/mysql")
	if err != nil {
		return Dialect{}, err
	}
	return Dialect{
		open: func(g *gorm.Config) (*gorm.DB, *gorm.DB, error) { return openMySQL(cfg, g) },
		// INSERT IGNORE would hide every other error too.
		KeepFirst: func(key string) string { return "ON DUPLICATE KEY UPDATE `" + key + "`=`" + key + "`" },
		// VALUES is used because MariaDB does not know the row alias that MySQL has for it.
		OnConflict: func(string) string { return "ON DUPLICATE KEY UPDATE " },
		Offered:    func(column string) string { return "VALUES(`" + column + "`)" },
		// DELETE accepts an index hint only in its form for several tables.
		DeleteFrom: func(table string) string {
			return "DELETE " + table + " FROM " + table + " FORCE INDEX (PRIMARY)"
		},
		ByPrimary:   " FORCE INDEX (PRIMARY)",
		LockRows:    " FOR UPDATE",
		By:          func(index string) string { return " FORCE INDEX (" + index + ")" },
		Uncommitted: sql.LevelReadUncommitted,
		Now:         "CURRENT_TIMESTAMP(6)",
		Ago:         "CURRENT_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND",
		Hence:       "CURRENT_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND",
		Elapsed: func(since, until string) string {
			return "TIMESTAMPDIFF(MICROSECOND, " + since + ", " + until + ") DIV 1000"
		},
		Verdict:    mysqlVerdict,
		refused:    mysqlRefused,
		strict:     mysqlStrict,
		goose:      goose.DialectMySQL,
		migrations: files,
		exclusive: func(ctx context.Context, wait turn, migrate func(*sql.DB) error) error {
			return mysqlExclusive(ctx, cfg, wait, migrate)
		},
	}, nil
}

// mysqlConfig parses a DSN and sets what tierq needs. It keeps timeouts and session variables that the DSN names.
func mysqlConfig(dsn string, roots *x509.CertPool, log *slog.Logger) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		// The driver's message may repeat parts of a DSN, but no part that the settings let through.
		return nil, fmt.Errorf("read MySQL DSN, which is written user:password@tcp(host:3306)/database: %w", err)
	}
	if cfg.DBName == "" {
		return nil, errors.New("read MySQL DSN: it names no database")
	}
	if err := secure(cfg, roots); err != nil {
		return nil, fmt.Errorf("read MySQL DSN: %w", err)
	}
	cfg.ParseTime, cfg.Loc = true, time.UTC
	// The driver's default is to wait for ever.
	for t, d := range map[*time.Duration]time.Duration{&cfg.Timeout: 2 * time.Second, &cfg.ReadTimeout: 5 * time.Second,
		&cfg.WriteTimeout: 5 * time.Second} {
		if *t == 0 {
			*t = d
		}
	}
	// After a failover the old primary is read-only: its connections are closed instead of kept in the pool.
	cfg.RejectReadOnly = true
	// Measured on MariaDB 10.11: an insert that finds its row (ON DUPLICATE KEY UPDATE job_id=job_id) reports 0
	// affected rows without this flag, and 1 with it, as an insert that wrote. Without the flag, n affected rows of n
	// mean that all rows are ours.
	cfg.ClientFoundRows = false
	cfg.MultiStatements = false
	if !strings.HasPrefix(cfg.Collation, "utf8mb4") {
		cfg.Collation = "utf8mb4_general_ci" // known to every MySQL and MariaDB; the columns have their own
	}
	session := map[string]string{
		"time_zone": "'+00:00'", // CURRENT_TIMESTAMP is UTC
		// Less than readTimeout, so that the server returns 1205 before the driver closes the connection and leaves the
		// statement waiting.
		"innodb_lock_wait_timeout": "3",
	}
	maps.Copy(session, cfg.Params)
	cfg.Params = session
	cfg.Logger = driverLog{log}
	return cfg, nil
}

// driverLog logs the driver's messages about broken connections at level debug. The error itself is returned to
// the caller.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any) { l.log.Debug("mysql driver", "says", fmt.Sprint(v...)) }

// readCommitted makes connections whose transactions read committed. The default, REPEATABLE READ, locks the gap
// around a row that a DELETE does not find, so that other transactions could not insert there. A transaction that asks
// for its level itself costs a round trip more.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	const level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, level, nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func openMySQL(cfg *mysql.Config, g *gorm.Config) (write, read *gorm.DB, err error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, err
	}
	db := sql.OpenDB(keeping{readCommitted{connector}})
	db.SetMaxOpenConns(mysqlConns)
	db.SetMaxIdleConns(mysqlConns)
	db.SetConnMaxLifetime(3 * time.Minute) // servers and load balancers close older connections
	write, err = gorm.Open(gormmysql.New(gormmysql.Config{
		Conn:                      db,
		DSNConfig:                 cfg,
		SkipInitializeWithVersion: true, // reading the version would connect
		DisableWithReturning:      true, // MariaDB would get statements that MySQL does not know
	}), g)
	if err != nil {
		_ = db.Close() // nothing was opened yet
		return nil, nil, err
	}
	return write, write, nil
}

func mysqlStrict(ctx context.Context, db *sql.DB) (bool, error) {
	var mode string
	if err := db.QueryRowContext(ctx, "SELECT @@SESSION.sql_mode").Scan(&mode); err != nil {
		return false, err
	}
	return strings.Contains(mode, "STRICT_TRANS_TABLES") || strings.Contains(mode, "STRICT_ALL_TABLES"), nil
}

// badDataNumbers are the errors about a value whose SQLSTATE does not say so.
var badDataNumbers = map[uint16]bool{
	1118: true, // the row is too large
	1153: true, // the packet is larger than max_allowed_packet
	1264: true, // out of range
	1265: true, // truncated
	1292: true, // incorrect time
	1300: true, // invalid utf8
	1366: true, // incorrect string
	1406: true, // too long
	3140: true, // invalid JSON
	3819: true, // CHECK, MySQL
	3988: true, // not convertible to the column's character set
	4025: true, // CHECK, MariaDB
}

// denied says whether a server refuses our user or our database: 1044, 1045, 1698 access, 1049 no such database,
// 1142 no right on a table.
func denied(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Number {
	case 1044, 1045, 1049, 1142, 1698:
		return true
	}
	return false
}

// mysqlRefused recognizes refused connections (1040 and 1203 too many, 1129 and 1130 the host, 1226 a limit of the
// user) and a server without space (1021 disk, 1114 table).
func mysqlRefused(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Number {
	case 1021, 1040, 1114, 1129, 1130, 1203, 1226:
		return true
	}
	return false
}

func mysqlVerdict(err error) Verdict {
	var e *mysql.MySQLError
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge):
		return BadData
	case !errors.As(err, &e):
		return Outage
	case e.Number == 1213 || e.Number == 1205:
		return Conflict
	case badDataNumbers[e.Number]:
		return BadData
	}
	if class := string(e.SQLState[:2]); class == "22" || class == "23" {
		return BadData
	}
	return Outage
}

// migrationLock is the SQL expression for the name of this database's lock. Such locks belong to the whole server.
// A name has at most 64 characters.
const migrationLock = "CONCAT('tierq.', LEFT(SHA2(DATABASE(), 256), 58))"

// mysqlExclusive holds GET_LOCK on a connection of its own, so that the server releases the lock if the process
// dies.
func mysqlExclusive(ctx context.Context, cfg *mysql.Config, wait turn, migrate func(*sql.DB) error) error {
	patient := cfg.Clone()
	patient.ReadTimeout = 10 * time.Minute // a later migration may rebuild a large table
	connector, err := mysql.NewConnector(patient)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	holder, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer holder.Close()
	err = wait.await(ctx, func(ctx context.Context) (bool, error) {
		var got sql.NullInt64
		err := holder.QueryRowContext(ctx, "SELECT GET_LOCK("+migrationLock+", 2)").Scan(&got)
		return got.Int64 == 1, err
	}, func(ctx context.Context) string {
		var id sql.NullInt64
		err := holder.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+migrationLock+")").Scan(&id)
		if err != nil || !id.Valid {
			return "it just ended"
		}
		return fmt.Sprintf("connection %d of the server's SHOW PROCESSLIST", id.Int64)
	})
	if err != nil {
		return err
	}
	err = migrate(db)
	_, released := holder.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+migrationLock+")")
	if err == nil && released != nil {
		return fmt.Errorf("release the lock: %w", released)
	}
	return err
}
