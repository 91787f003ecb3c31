package testkit

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestTCPProxy(t *testing.T) {
	t.Run("mariadb", func(t *testing.T) {
		ctx := context.Background()
		direct := SharedMariaDB(t)
		cfg, err := mysql.ParseDSN(direct)
		must(t, err)
		p := NewTCPProxy(t, cfg.Addr)
		cfg.Addr = p.Addr()
		through, past := open(t, cfg.FormatDSN()), open(t, direct)
		through.SetMaxOpenConns(1)
		execute(t, through, "CREATE TABLE rows_here (id INT PRIMARY KEY)")
		rows := func() (n int) {
			must(t, past.QueryRowContext(ctx, "SELECT COUNT(*) FROM rows_here").Scan(&n))
			return n
		}

		conn, err := through.Conn(ctx)
		must(t, err)
		p.Cut()
		if err := conn.PingContext(ctx); err == nil {
			t.Error("a cut connection answered")
		}
		_ = conn.Close()
		must(t, through.PingContext(ctx))

		conn, err = through.Conn(ctx)
		must(t, err)
		p.Refuse(true)
		p.Refuse(true)
		must(t, conn.PingContext(ctx)) // open connections stay
		if err := open(t, cfg.FormatDSN()).PingContext(ctx); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a closed port: %v", err)
		}
		p.Refuse(false)
		p.Refuse(false)
		must(t, conn.Close())
		must(t, through.PingContext(ctx))

		// The proxy cuts the statement in the middle, so the server never executes it.
		p.CutAfter(20)
		if _, err := through.ExecContext(ctx, "INSERT INTO rows_here VALUES (1)"); err == nil {
			t.Error("a statement that was cut in the middle succeeded")
		}
		if n := rows(); n != 0 || p.Cuts() != 1 {
			t.Errorf("%d rows, %d cuts", n, p.Cuts())
		}

		// The proxy drops the answer to the commit, which the server has executed.
		must(t, through.PingContext(ctx))
		p.DropReply("COMMIT")
		tx, err := through.BeginTx(ctx, nil)
		must(t, err)
		_, err = tx.ExecContext(ctx, "INSERT INTO rows_here VALUES (2)")
		must(t, err)
		if err := tx.Commit(); err == nil {
			t.Error("the commit was answered")
		}
		if n := rows(); n != 1 || p.Cuts() != 2 {
			t.Errorf("%d rows, %d cuts", n, p.Cuts())
		}
	})
}
