package chaos

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// The faults of this file are those of MariaDB. None of them decides anything about a job: outcomes wait in the
// outbox.

// sqlParams returns parameters of the servers' DSN: a server waits at most 1 s for a row's lock.
func (c *cluster) sqlParams() string { return "?innodb_lock_wait_timeout=1" }

func sqlStopped(ctx context.Context, w *wound) (string, error) {
	if err := w.mariadb.Freeze(); err != nil {
		return "", err
	}
	began := time.Now()
	hold(ctx, w.between(time.Second, 8*time.Second))
	return fmt.Sprintf("pid %d stood still for %s", w.mariadb.Pid(), time.Since(began).Round(10*time.Millisecond)),
		w.mariadb.Thaw()
}

func sqlKilled(ctx context.Context, w *wound) (string, error) {
	pid := strconv.Itoa(w.mariadb.Pid())
	if err := w.mariadb.Kill(); err != nil {
		return "", err
	}
	w.from, w.kills = time.Now(), 1
	hold(ctx, w.between(time.Second, 4*time.Second))
	return fmt.Sprintf("pid %s is gone: %v", pid, gone(pid)), w.mariadb.Restart()
}

// readOnly is a fault: SET GLOBAL read_only, which binds every user but root.
func readOnly(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	if err := w.execute(calm, "SET GLOBAL read_only = 1"); err != nil {
		return "", err
	}
	rows := func() (n int, err error) {
		const ended = "SELECT (SELECT COUNT(*) FROM job_outcomes) + (SELECT COUNT(*) FROM job_results)"
		return n, w.db.QueryRowContext(calm, ended).Scan(&n)
	}
	before, err := rows()
	hold(ctx, w.between(2*time.Second, 5*time.Second))
	after, err2 := rows()
	waiting, unsaid := w.size(calm, "outbox")
	if err := errors.Join(err, err2, w.execute(calm, "SET GLOBAL read_only = 0")); err != nil {
		return "", err
	}
	if unsaid != nil { // another lane has broken Redis
		return "Redis does not say what waits", errMissed
	}
	if before != after || waiting == 0 {
		return fmt.Sprintf("%d rows were written, %d outcomes waited", after-before, waiting), errMissed
	}
	return fmt.Sprintf("no row was written, %d outcomes waited", waiting), nil
}

// status returns one of MariaDB's counters.
func (w *wound) status(ctx context.Context, counter string) (n int, err error) {
	var name string
	if err := w.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE '"+counter+"'").Scan(&name, &n); err != nil {
		return 0, fmt.Errorf("status %s: %w", counter, err)
	}
	return n, nil
}

func (c *cluster) execute(ctx context.Context, statement string) error {
	if _, err := c.db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// counting runs do and returns by how much a counter of MariaDB grew meanwhile.
func (w *wound) counting(ctx context.Context, counter, what string, do func() error) (string, error) {
	calm := context.WithoutCancel(ctx)
	before, err := w.status(calm, counter)
	if err != nil {
		return "", err
	}
	if err := do(); err != nil {
		return "", err
	}
	after, err := w.status(calm, counter)
	if err != nil {
		return "", err
	}
	return counted(after-before, what)
}

const (
	aliens  = 2000 // more rows than a batch of the servers has: InnoDB rolls back the smaller transaction
	alienID = "ffffffff-ffff-7fff-bfff-%012x"
	alien   = "INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, " +
		"max_retries, trace_id) " +
		"VALUES (?, 1, 'CANCELLED', 0, 'PAID', 'CHAOS', '', 0, 0, '')"
)

// locked is a fault: a second session holds the rows that the servers want to write, for longer than a server
// waits.
func locked(ctx context.Context, w *wound) (string, error) {
	return w.counting(ctx, "Innodb_row_lock_waits", "waits for a row's lock", func() error {
		return w.rival(ctx, func(tx *sql.Tx) error {
			// The gap behind the last row is locked too, so that no server can insert there.
			for _, last := range []string{
				"SELECT job_id FROM job_outcomes ORDER BY job_id DESC LIMIT 100 FOR UPDATE",
				"SELECT job_id FROM job_results ORDER BY job_id DESC LIMIT 100 FOR UPDATE",
			} {
				if _, err := tx.ExecContext(ctx, last); err != nil {
					return fmt.Errorf("lock: %w", err)
				}
			}
			hold(ctx, w.between(2*time.Second, 4*time.Second))
			return nil
		})
	})
}

// deadlocked is a fault: a second session locks results, lets the servers insert their outcomes, and then wants to
// lock those. It has more to roll back than a server, so that InnoDB chooses the server's transaction as the
// victim.
func deadlocked(ctx context.Context, w *wound) (string, error) {
	return w.counting(ctx, "Innodb_deadlocks", "deadlocks", func() error {
		return w.rival(ctx, func(tx *sql.Tx) error {
			for n := range aliens {
				if _, err := tx.ExecContext(ctx, alien, fmt.Sprintf(alienID, n)); err != nil {
					return fmt.Errorf("become heavy: %w", err)
				}
			}
			if _, err := tx.ExecContext(ctx,
				"SELECT job_id FROM job_results ORDER BY job_id DESC LIMIT 10 FOR UPDATE"); err != nil {
				return fmt.Errorf("lock: %w", err)
			}
			hold(ctx, 500*time.Millisecond)
			_, err := tx.ExecContext(ctx, "SELECT job_id FROM job_outcomes ORDER BY job_id DESC LIMIT 3000 FOR UPDATE")
			if err != nil {
				w.say("the rival was the victim: %v", err)
			}
			return nil
		})
	})
}

const deadlockVictim = 1213 // ER_LOCK_DEADLOCK

// rival runs do in a transaction of a second session and rolls it back. It returns errMissed if another fault
// ended the session; a rival that was the victim of the deadlock is no error.
func (w *wound) rival(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := w.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err = do(tx)
	var refused *mysql.MySQLError
	switch {
	case ctx.Err() != nil:
		err = nil // the faults are over, and ctx has ended the statement
	case errors.As(err, &refused) && refused.Number == deadlockVictim:
		w.say("the rival was the victim: %v", err)
		err = nil
	case errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		w.say("another fault ended the rival's session: %v", err)
		err = errMissed
	}
	_ = tx.Rollback() // InnoDB has rolled back a victim already
	return err
}

// connectionsKilled kills the servers' sessions.
func (w *wound) connectionsKilled(ctx context.Context, root *sql.Conn) error {
	ids, err := sessions(ctx, root)
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	for _, id := range ids {
		if _, err := root.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10)); err != nil {
			w.say("session %d is gone already: %v", id, err)
		}
	}
	return nil
}

func sessions(ctx context.Context, root *sql.Conn) (ids []int64, err error) {
	rows, err := root.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = ?", user)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// noConnections is a fault: the servers lose their sessions, and MariaDB accepts fewer new ones than they want.
func noConnections(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	return w.counting(ctx, "Connection_errors_max_connections", "connections refused", func() error {
		taken := []*sql.Conn{}
		for range 10 {
			c, err := w.db.Conn(calm)
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer c.Close()
			taken = append(taken, c)
		}
		if _, err := taken[0].ExecContext(calm, "SET GLOBAL max_connections = 10"); err != nil {
			return fmt.Errorf("set max_connections: %w", err)
		}
		err := w.connectionsKilled(calm, taken[0])
		hold(ctx, w.between(2*time.Second, 4*time.Second))
		_, err2 := taken[0].ExecContext(calm, "SET GLOBAL max_connections = 500")
		return errors.Join(err, err2)
	})
}

// idleCut is a fault: for 4 s, MariaDB closes sessions that were idle for a second.
func idleCut(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	if err := w.execute(calm, "SET GLOBAL wait_timeout = 1"); err != nil { // binds sessions that begin from now on
		return "", err
	}
	root, err := w.db.Conn(calm)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer root.Close()
	if err := w.connectionsKilled(calm, root); err != nil {
		return "", err
	}
	hold(ctx, 200*time.Millisecond)
	return w.counting(ctx, "Aborted_clients", "idle sessions were closed", func() error {
		hold(ctx, 4*time.Second)
		return w.execute(calm, "SET GLOBAL wait_timeout = 28800")
	})
}
