package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // reads the file that an embedded server wrote

	"github.com/tierq/tierq/internal/chaos/check"
)

// This file has what is different about an embedded server: after its process ends, only the file of SQLite is
// left.

// Inside returns the options of an embedded run that fits into the test suite.
func Inside() Options {
	return Options{
		Embedded: true, Servers: 1, Jobs: 500, Accepted: 400, Over: 20 * time.Second, Kills: 5, Kinds: 5,
		Gap: 1500 * time.Millisecond, MaxSleep: 300 * time.Millisecond, Repair: true,
	}
}

// InsideGap is the mean time between two faults of a longer embedded run. The watches take a job back only after a
// second look. A server that is always killed before that look takes no job back, so within two minutes one of its
// processes has to live long enough.
const InsideGap = 6 * time.Second

// insideRate is how many jobs a second an embedded server is given, unless the caller asks for another number.
const insideRate = 25

// JobsFor returns how many jobs an embedded run of this length has.
func JobsFor(over time.Duration) int { return int(insideRate * over.Seconds()) }

// sqlite returns the name of the embedded server's SQLite file.
func (c *cluster) sqlite() string { return filepath.Join(c.dir, "data", "tierq.sqlite") }

// openSQLite opens the file for reading while the server writes it.
func (c *cluster) openSQLite(ctx context.Context) (err error) {
	if c.db, err = openFile(c.sqlite()); err == nil {
		err = c.db.PingContext(ctx)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", c.sqlite(), err)
	}
	return nil
}

func openFile(file string) (*sql.DB, error) {
	return sql.Open("sqlite3", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
}

// killedWhileLocked is a fault: another connection holds SQLite's lock, so that the server cannot write, and the
// process is killed before the lock is free. Jobs that ended meanwhile were recorded in memory only.
func killedWhileLocked(ctx context.Context, w *wound) (evidence string, err error) {
	calm := context.WithoutCancel(ctx)
	db, err := sql.Open("sqlite3", "file:"+w.sqlite()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return "", fmt.Errorf("open SQLite: %w", err)
	}
	defer db.Close()
	lock, err := db.Conn(calm)
	if err != nil {
		return "", fmt.Errorf("open SQLite: %w", err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(calm, "BEGIN IMMEDIATE"); err != nil {
		return "the lock was taken: " + err.Error(), errMissed
	}
	began := time.Now()
	hold(ctx, w.between(300*time.Millisecond, 2*time.Second))
	if evidence, err = w.kill(w.s); err != nil {
		return "", err
	}
	evidence += fmt.Sprintf(", after %s without a write", w.from.Sub(began).Round(10*time.Millisecond))
	w.land(check.Fault{
		Kind: "F39", What: "SQLite locked", Target: "mysql", From: began, To: time.Now(), Evidence: "by another program",
		Repeats: true,
	})
	if _, err := lock.ExecContext(calm, "ROLLBACK"); err != nil {
		return "", fmt.Errorf("free SQLite: %w", err)
	}
	return evidence, w.s.start(calm)
}

// programs returns the commands that print the versions of the stores for the table.
func (c *cluster) programs() [][]string {
	if c.Embedded {
		return nil
	}
	return [][]string{{"redis-server", "--version"}, {"mariadbd", "--version"}}
}

// firstStarts starts the first server on the empty database. Before that, it kills one to three first starts, as
// the seed says; a clean run kills none. In half of the runs the first of them is killed after the table of
// versions was made and before its first row. The others are killed at a random time within a second. The last
// start has to succeed on what they left, or firstStarts returns errBricked.
func (c *cluster) firstStarts(ctx context.Context) error {
	dice, kills := rand.New(rand.NewPCG(c.Seed, 800)), 0
	if !c.Clean {
		kills = 1 + dice.IntN(3)
	}
	for n := range kills {
		point, after := "", time.Duration(dice.Int64N(int64(time.Second)))
		if n == 0 && dice.IntN(2) == 0 {
			point = "versions.made"
		}
		if err := c.firstStart(ctx, point, after); err != nil {
			return err
		}
	}
	s := check.Start{Killed: time.Now(), Left: c.versions(ctx)}
	boot, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := c.servers[0].start(boot); err != nil && ctx.Err() == nil {
		s.Failed = firstLine(err.Error())
		c.beside.Starts = append(c.beside.Starts, s)
		return errBricked
	}
	if kills > 0 {
		c.beside.Starts = append(c.beside.Starts, s)
	}
	return ctx.Err()
}

// errBricked means that a server does not start on a database that a killed first start left.
var errBricked = errors.New("the server does not start again")

// firstStart starts the first server once and kills it: at the failpoint if there is one, and otherwise after a
// time.
func (c *cluster) firstStart(ctx context.Context, point string, after time.Duration) error {
	s := c.servers[0]
	env := s.settings()
	if point != "" {
		env = append(env, "TIERQ_FAILPOINTS="+point+"=kill")
	}
	p, err := s.launch(env)
	if err != nil {
		return err
	}
	within := after
	if point != "" {
		within = 10 * time.Second
	}
	began := time.Now()
	if s.awaitDeath(ctx, within) {
		c.say("F01  a first start ended after %s: %s", time.Since(began).Round(time.Millisecond), firstLine(p.Output()))
		s.keepLog(p)
		return nil
	}
	if _, err := s.kill(); err != nil {
		return err
	}
	c.say("F01  a first start was killed after %s; it left %s", time.Since(began).Round(time.Millisecond), c.versions(ctx))
	return nil
}

// versions describes how far the schema's migrations have come.
func (c *cluster) versions(ctx context.Context) string {
	db := c.db
	if c.Embedded {
		var err error
		if db, err = openFile(c.sqlite()); err != nil {
			return err.Error()
		}
		defer db.Close()
	}
	var n int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM goose_db_version").Scan(&n); err != nil {
		return "no table of versions"
	}
	return fmt.Sprintf("%d versions", n)
}
