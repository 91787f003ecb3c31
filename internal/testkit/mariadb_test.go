package testkit

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	must(t, err)
	cfg.ReadTimeout = 300 * time.Millisecond
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestMariaDBServer(t *testing.T) {
	t.Attr("proves", "S0-P11 T-1")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		ctx := context.Background()
		begin := time.Now()
		m := NewMariaDB(t)
		t.Logf("started in %v", time.Since(begin))
		one, two := open(t, m.NewDatabase(t)), open(t, m.NewDatabase(t))
		for _, db := range []*sql.DB{one, two} {
			execute(t, db, "CREATE TABLE words (word VARCHAR(20) PRIMARY KEY)")
		}
		execute(t, one, "INSERT INTO words VALUES ('čšž🙂')")

		pid := m.Pid()
		must(t, m.Kill())
		must(t, m.Kill())
		if err := one.PingContext(ctx); err == nil {
			t.Fatal("a killed server answered")
		}
		must(t, m.Restart())
		if m.Pid() == pid {
			t.Fatalf("the same process %d after a restart", pid)
		}
		var word string
		must(t, one.QueryRowContext(ctx, "SELECT word FROM words").Scan(&word))
		if word != "čšž🙂" {
			t.Errorf("after the restart: %q", word)
		}
		var n int
		must(t, two.QueryRowContext(ctx, "SELECT COUNT(*) FROM words").Scan(&n))
		if n != 0 {
			t.Errorf("the other database has %d rows", n)
		}

		must(t, m.Freeze())
		if err := one.PingContext(ctx); err == nil {
			t.Fatal("a frozen server answered")
		}
		must(t, m.Thaw())
		Eventually(t, 5*time.Second, "an answer after the thaw", func() (bool, string) {
			if err := one.PingContext(ctx); err != nil {
				return false, err.Error()
			}
			return true, ""
		})
		must(t, m.Freeze())
		m.Stop()
		m.Stop()
	})
}
