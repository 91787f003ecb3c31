package database_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database/databasetest"
)

// ask reads one number.
func ask(ctx context.Context, conn gorm.ConnPool, query string, arg int) (n int, err error) {
	rows, err := conn.QueryContext(ctx, query, arg)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		err = errors.Join(err, rows.Scan(&n))
	}
	return n, errors.Join(err, rows.Err(), rows.Close())
}

// More transactions and single statements than there are connections need the same new statements at once. None waits
// for a statement that another one prepares, and none gets the error of another one, whose caller went away.
func TestStatements_AtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, s *databasetest.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for round := range 50 {
			within, alone := fmt.Sprintf("SELECT %d + ?", round), fmt.Sprintf("SELECT %d * ?", round)
			var group sync.WaitGroup
			for n := range 48 {
				group.Go(func() {
					ctx, leave := context.WithCancel(ctx)
					defer leave()
					away := n%8 == 0
					if away {
						go leave()
					}
					var got int
					var err error
					want := round * n
					if n%2 == 0 {
						got, err = ask(ctx, s.Database.Write.Statement.ConnPool, alone, n)
					} else {
						want = round + n
						err = s.Database.Transaction(ctx, func(conn gorm.ConnPool) (err error) {
							got, err = ask(ctx, conn, within, n)
							return err
						})
					}
					if !away && (err != nil || got != want) {
						t.Errorf("round %d: %d, not %d: %v", round, got, want, err)
					}
				})
			}
			group.Wait()
			if t.Failed() {
				return
			}
		}
	})
}

// A connection keeps what it has prepared, and not without bound.
func TestStatements_Kept(t *testing.T) {
	t.Parallel()
	db := databasetest.New(t, databasetest.MariaDB(t)).Database
	count := func(conn gorm.ConnPool, of string) (n int) {
		var name string
		if err := conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE '"+of+"'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := db.Transaction(t.Context(), func(conn gorm.ConnPool) error {
		for n := range 600 {
			if got, err := ask(t.Context(), conn, fmt.Sprintf("SELECT %d + ?", n), 1); err != nil || got != n+1 {
				return fmt.Errorf("%d: %d, %w", n, got, err)
			}
		}
		prepared, closed := count(conn, "Com_stmt_prepare"), count(conn, "Com_stmt_close")
		if kept := prepared - closed; kept > 300 {
			t.Errorf("the connection keeps %d statements", kept)
		}
		for range 100 {
			if _, err := ask(t.Context(), conn, "SELECT 599 + ?", 1); err != nil {
				return err
			}
		}
		if n := count(conn, "Com_stmt_prepare"); n > prepared+5 {
			t.Errorf("100 uses of one statement prepared it %d times", n-prepared)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// SQLite: a statement is used while the rows of the same statement are read.
func TestStatements_Nested(t *testing.T) {
	t.Parallel()
	db := databasetest.New(t, databasetest.SQLite(t)).Database
	const query = "SELECT value + ? FROM json_each('[0, 1, 2]')"
	err := db.Transaction(t.Context(), func(conn gorm.ConnPool) error {
		outer, err := conn.QueryContext(t.Context(), query, 10)
		if err != nil {
			return err
		}
		defer func() { _ = outer.Close() }()
		for i := 0; outer.Next(); i++ {
			var n int
			if err := outer.Scan(&n); err != nil || n != 10+i {
				return fmt.Errorf("%d, not %d: %w", n, 10+i, err)
			}
			if last, err := ask(t.Context(), conn, query, 100); err != nil || last != 102 {
				return fmt.Errorf("%d, not 102: %w", last, err)
			}
		}
		return outer.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
