package testkit

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

const installMariaDB = "apt-get install -y mariadb-server"

// MariaDB is a real mariadbd that the kit started, durable at every commit. Its user is root without a password,
// over TCP.
type MariaDB struct {
	*server
}

// NewMariaDB starts a mariadbd for one test and stops it when the test ends. The args are mariadbd's own and
// override the defaults: "--ssl-cert=/file".
func NewMariaDB(t testing.TB, args ...string) *MariaDB {
	t.Helper()
	m, err := StartMariaDB(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	return m
}

// StartMariaDB starts a mariadbd on a copy of this machine's template of empty system tables, and returns when the
// server answers. The caller stops it. If TEST_MYSQLD is set, StartMariaDB starts that program instead.
func StartMariaDB(args ...string) (*MariaDB, error) {
	if bin := mysqlProgram(); bin != "" {
		return startMySQL(bin, args)
	}
	bin, err := program(installMariaDB, "mariadbd", "mysqld")
	if err != nil {
		return nil, err
	}
	install, err := program(installMariaDB, "mariadb-install-db", "mysql_install_db")
	if err != nil {
		return nil, err
	}
	for n := range attempts {
		var m *MariaDB
		if m, err = tryMariaDB(bin, install, n == 0, args); err == nil {
			return m, nil
		}
	}
	return nil, err
}

// tryMariaDB starts one mariadbd. With copied false it makes the system tables anew and removes the template, so
// that a damaged template cannot fail all tests for ever.
func tryMariaDB(bin, install string, copied bool, args []string) (*MariaDB, error) {
	s, err := newServer("mariadb")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	if err := systemTables(bin, install, copied, data); err != nil {
		s.Stop()
		return nil, err
	}
	s.command = func() *exec.Cmd {
		return exec.Command(bin, slices.Concat(baseArgs(data), s.sqlArgs(), []string{
			"--pid-file=mariadb.pid", "--skip-log-bin", "--performance-schema=off",
		}, args)...)
	}
	s.ready = func(int) error { return mariadbIs(s.Addr(), data) }
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return &MariaDB{server: s}, nil
}

// sqlArgs returns the arguments of every SQL server of the tests: durable, small, and reachable on 127.0.0.1 only.
func (s *server) sqlArgs() []string {
	return []string{
		"--port=" + strconv.Itoa(s.port), "--bind-address=127.0.0.1", "--log-error=" + s.log(),
		// Relative to the data: a path under a deep temporary folder would be too long for a socket.
		"--socket=s.sock", "--skip-name-resolve", "--character-set-server=utf8mb4", "--max-connections=500",
		"--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=32M",
		"--innodb-buffer-pool-load-at-startup=0", "--innodb-buffer-pool-dump-at-shutdown=0",
	}
}

// baseArgs returns the arguments that the installation and the server must share. Root must say explicitly that it
// runs the server.
func baseArgs(data string) []string {
	// A starting mariadbd removes every temporary table in its tmpdir. In a shared tmpdir it would remove those of
	// other running servers, which then crash.
	args := []string{
		"--no-defaults", "--datadir=" + data, "--tmpdir=" + tmpdir(data), "--skip-name-resolve", "--innodb-log-file-size=8M",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// installArgs flush nothing: a power loss while the tables are made does no harm.
var installArgs = []string{
	"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-flush-method=nosync", "--innodb-doublewrite=0",
}

func mariadbTemplate(bin, install string) (*template, error) {
	return templateFor("mariadb", []string{bin, install}, append(baseArgs("data"), installArgs...))
}

// systemTables makes the data folder of a server and, beside it, the folder of its temporary tables.
func systemTables(bin, install string, copied bool, data string) error {
	create := func(data string) error { return makeTables(install, data) }
	from, err := mariadbTemplate(bin, install)
	if err != nil {
		return create(data) // no place for a template: the tables are made for this server alone
	}
	if !copied {
		from.remove()
		return create(data)
	}
	if err := os.Mkdir(tmpdir(data), 0o700); err != nil {
		return fmt.Errorf("tmpdir of mariadb: %w", err)
	}
	return from.copyTo(data, create)
}

func makeTables(install, data string) error {
	if err := os.MkdirAll(tmpdir(data), 0o700); err != nil {
		return fmt.Errorf("tmpdir of mariadb: %w", err)
	}
	log := filepath.Join(filepath.Dir(data), "install.log")
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("install mariadb: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(install, append(baseArgs(data), installArgs...)...)
	cmd.Stdout, cmd.Stderr = out, out
	c, err := startChild(cmd)
	if err != nil {
		return fmt.Errorf("install mariadb: %w", err)
	}
	<-c.exited
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("install mariadb: %v\n%s", cmd.ProcessState, tail(log))
	}
	return nil
}

func tmpdir(data string) string { return filepath.Join(filepath.Dir(data), "tmp") }

// mariadbIs checks that the server on addr has this data folder. If another process took the port, another server
// answers there.
func mariadbIs(addr, data string) error {
	var got, version string
	err := admin(dsn(addr, ""), func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT @@datadir, VERSION()").Scan(&got, &version)
	})
	if err != nil {
		return err
	}
	if filepath.Clean(got) != data {
		return fmt.Errorf("a server with the data in %s answers, not ours", got)
	}
	return met("sql", version)
}

// admin runs do on a connection of its own, for at most 10 s. It silences the driver's log, because broken
// connections are expected while a server starts or dies.
func admin(dsn string, do func(context.Context, *sql.DB) error) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return fmt.Errorf("read DSN: %w", err)
	}
	cfg.DBName = ""
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return do(ctx, db)
}

func dsn(addr, database string) string { return "root@tcp(" + addr + ")/" + database }

// DSN returns a go-sql-driver DSN without parameters. The database need not exist yet.
func (m *MariaDB) DSN(database string) string { return dsn(m.Addr(), database) }

// NewDatabase creates an empty utf8mb4 database with a fresh name and returns its DSN. The database lives as long
// as the server.
func (m *MariaDB) NewDatabase(t testing.TB) string {
	t.Helper()
	name, err := createDatabase(m.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	return m.DSN(name)
}

var databases atomic.Int64

// createDatabase creates a database whose name no other process of this machine uses, now or later.
func createDatabase(dsn string) (string, error) {
	name := fmt.Sprintf("testkit_%d_%d_%d", time.Now().UnixNano(), os.Getpid(), databases.Add(1))
	err := admin(dsn, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE `"+name+"` CHARACTER SET utf8mb4")
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	return name, nil
}
