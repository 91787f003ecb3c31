package testkit

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// shared holds the servers that the tests of one process share. The first test that asks for a server starts it.
var shared struct {
	sync.Mutex
	redis   *Redis
	cluster *Cluster
	mariadb *MariaDB
}

// SharedRedis returns the URL of TEST_REDIS_URL, or of one throwaway redis-server per test process. It is for
// suites that do not flush, stop or reconfigure the server. Tests with fixed key names use SharedRedisDB.
func SharedRedis(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("TEST_REDIS_URL"); url != "" {
		return url
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.redis == nil {
		r, err := StartRedis("--databases", fmt.Sprint(ownDatabases), "--appendfsync", "no") // no test stops it
		if err != nil {
			t.Fatal(err)
		}
		shared.redis = r
	}
	return shared.redis.URL()
}

// SharedMariaDB returns the DSN of a fresh database for this test, on the server of TEST_MYSQL_DSN or on one
// throwaway server per test process. On the server of TEST_MYSQL_DSN, the database is dropped when the test ends.
func SharedMariaDB(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv("TEST_MYSQL_DSN"); dsn != "" {
		return externalDatabase(t, dsn)
	}
	return ownMariaDB(t).NewDatabase(t)
}

func ownMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.mariadb == nil {
		// No test stops the shared server, so it flushes nothing to the disk. Tests of durability use NewMariaDB.
		m, err := StartMariaDB("--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=0")
		if err != nil {
			t.Fatal(err)
		}
		shared.mariadb = m
	}
	return shared.mariadb
}

func externalDatabase(t testing.TB, dsn string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("TEST_MYSQL_DSN: %v", err)
	}
	name, err := createDatabase(dsn)
	if err != nil {
		t.Fatalf("TEST_MYSQL_DSN: %v", err)
	}
	t.Cleanup(func() {
		err := admin(dsn, func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, "DROP DATABASE `"+name+"`")
			return err
		})
		if err != nil {
			t.Errorf("drop database %s: %v", name, err)
		}
	})
	cfg.DBName = name
	return cfg.FormatDSN()
}

// StopShared stops the shared servers and removes the binaries of BuildTierq. A second call does nothing; a server
// that a test asks for afterwards is started again.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.redis != nil {
		shared.redis.Stop()
		shared.redis = nil
		handedOut.forget()
	}
	if shared.cluster != nil {
		shared.cluster.Stop()
		shared.cluster = nil
	}
	if shared.mariadb != nil {
		shared.mariadb.Stop()
		shared.mariadb = nil
	}
	removeMySQLTemplate()
	stopBrowser()
	stopFirefox()
	removeBinaries()
}

// Main wraps a package's tests so that StopShared follows them, before goleak looks:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }
//
// and without goleak:
//
//	func TestMain(m *testing.M) { os.Exit(testkit.Main(m).Run()) }
func Main(m *testing.M) Tests { return Tests{m: m} }

// Tests wraps testing.M for TestMain.
type Tests struct{ m *testing.M }

// Run runs the tests, stops the shared servers and returns the exit code.
func (t Tests) Run() int {
	defer StopShared()
	return t.m.Run()
}
