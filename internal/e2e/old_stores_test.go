package e2e

import (
	"database/sql"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
)

// This file puts an earlier build's data into the stores of a test.

// oldHouse is a server of this build on an earlier build's data.
type oldHouse struct {
	*server
	db    *sql.DB
	quiet func() // waits until nothing is left to do in Redis, and audits it
}

// onOldStores starts a server on a Redis and a MariaDB with an earlier build's data.
func onOldStores(t *testing.T, folder, receiver string, facts oldFacts) oldHouse {
	c := emptyCluster(t)
	fillOldTables(t, c.db, goose.DialectMySQL, facts.Schema, oldText(t, folder, "rows.sql", receiver))
	c.takeOverRedis(oldText(t, folder, "commands.resp", receiver))
	left := c.keys()
	c.refused("TIERQ_JOURNAL=on", "this build's schema version is 2 here and 1 in Redis")
	if keys := c.keys(); len(keys) == 0 || !slices.Equal(keys, left) {
		t.Fatalf("the refused server left the keys %q of %q", keys, left)
	}
	if err := c.rdb.FlushAll(t.Context()).Err(); err != nil { // allowed: the server belongs to this test
		t.Fatal(err)
	}
	s := c.start(append(oldSettings, "TIERQ_ADMIN_KEY="+facts.Admin, "TIERQ_SQL_RETENTION=0")...)
	return oldHouse{s, c.db, func() { c.quiet(60 * time.Second) }}
}

// onOldFile starts an embedded server on a file with an earlier build's rows. SQLite writes binary values in another
// way than MariaDB.
func onOldFile(t *testing.T, folder, receiver string, facts oldFacts) oldHouse {
	e := newEmbedded(t, append(outward[:2:2], "TIERQ_ADMIN_KEY="+facts.Admin, "TIERQ_SQL_RETENTION=0")...)
	file := "file:" + filepath.Join(e.dir, "tierq.sqlite") + "?_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite3", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rows := regexp.MustCompile(`([(, ])0x([0-9a-f]+)([,)])`).ReplaceAllString(oldText(t, folder, "rows.sql", receiver),
		"${1}X'${2}'${3}")
	fillOldTables(t, db, goose.DialectSQLite3, facts.Schema, rows)
	e.start()
	return oldHouse{e.server, db, func() {}} // no test reaches the Redis inside the process
}

// oldText reads a file of an earlier build's data. receiver stands in the place of oldReceiver.
func oldText(t testing.TB, folder, name, receiver string) string {
	t.Helper()
	if len(receiver) != len(oldReceiver) {
		t.Fatalf("the receiver's address must be as long as %s: %s", oldReceiver, receiver)
	}
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), oldReceiver, receiver)
}

// fillOldTables makes the tables of an earlier build's schema in an empty database, and inserts the build's rows.
func fillOldTables(t *testing.T, db *sql.DB, dialect goose.Dialect, schema int64, rows string) {
	t.Helper()
	folder := map[goose.Dialect]string{goose.DialectMySQL: "mysql", goose.DialectSQLite3: "sqlite"}[dialect]
	p, err := goose.NewProvider(dialect, db, os.DirFS("../database/migrations/"+folder),
		goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	for _, insert := range strings.Split(strings.TrimSpace(rows), "\n") {
		if _, err := db.ExecContext(t.Context(), insert); err != nil {
			t.Fatalf("%v: %.200s", err, insert)
		}
	}
}

// takeOverRedis fills the cluster's empty Redis with an earlier build's keys.
func (c *cluster) takeOverRedis(commands string) {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.redis.Addr())
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, commands+"*1\r\n$4\r\nQUIT\r\n"); err != nil {
		c.t.Fatal(err)
	}
	answers, err := io.ReadAll(conn)
	if err != nil || strings.Contains("\n"+string(answers), "\n-") {
		c.t.Fatalf("Redis did not take the data: %v %s", err, answers)
	}
}
