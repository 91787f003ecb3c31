package database_test

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/testkit"
)

// A pool has an idle connection that the network has reset. The driver cannot send its goodbye on it, and Close is
// right all the same.
func TestCloseOfResetConnection(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		cfg, err := mysql.ParseDSN(databasetest.MariaDB(t).MySQLDSN)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testkit.NewTCPProxy(t, cfg.Addr)
		cfg.Addr = proxy.Addr()
		// closed when the test ends, without an error
		db := databasetest.Open(t, database.Options{MySQLDSN: cfg.FormatDSN()})
		if err := db.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		proxy.Reset()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
