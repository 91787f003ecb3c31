package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Other clients take nearly all connections of the database, and tierq's are cut, so that two servers share the
// few others. Submits and work go on. A list that finds no connection may be refused, and succeeds when repeated.
func TestSQLConnectionsTaken(t *testing.T) {
	t.Attr("proves", "F41")
	t.Parallel()
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	s := c.start()
	c.start()
	l := c.underLoad(s, 4, 0)
	ctx := context.Background()
	others, err := sql.Open("mysql", m.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = others.Close() }()
	c.db.SetMaxIdleConns(0)
	var taken []*sql.Conn
	var lists, failed int
	var mu sync.Mutex
	l.suffer(func() error {
		for range 9 {
			conn, err := others.Conn(ctx)
			if err != nil {
				return err
			}
			taken = append(taken, conn)
		}
		_, err := taken[0].ExecContext(ctx, "SET GLOBAL max_connections = 10") // MariaDB accepts no lower value
		err = errors.Join(err, cut(ctx, taken[0], c.dsn[strings.LastIndex(c.dsn, "/")+1:]))
		var ends []func()
		for range 3 {
			ends = append(ends, again(20*time.Millisecond, func() {
				for asked := 1; ; asked++ {
					a, err := try(http.MethodGet, s.base+"/admin/jobs?status=COMPLETED&limit=5", "")
					mu.Lock()
					lists++
					if err != nil || a.status != http.StatusOK {
						failed++
					}
					again := err == nil && a.status == http.StatusServiceUnavailable && asked < 20
					if !again && (err != nil || a.status != http.StatusOK) {
						t.Errorf("a list, asked for %d times: %v %d %s", asked, err, a.status, a.body)
					}
					mu.Unlock()
					if !again {
						return
					}
					<-time.After(50 * time.Millisecond)
				}
			}))
		}
		<-time.After(4 * time.Second)
		for _, end := range ends {
			end()
		}
		return err
	}, func() error {
		var name string
		var refused int
		err := taken[0].QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Connection_errors_max_connections'").Scan(&name,
			&refused)
		t.Logf("evidence: %d connections were refused; %d of %d lists were 503", refused, failed, lists)
		if refused == 0 {
			t.Error("the fault did not land")
		}
		_, widened := taken[0].ExecContext(ctx, "SET GLOBAL max_connections = 500")
		for _, conn := range taken {
			_ = conn.Close()
		}
		return errors.Join(err, widened)
	}, 0)
	if l.h.refused > 0 || len(l.h.unknown) > 0 {
		t.Errorf("%d refused, %d unknown: submits do not need SQL", l.h.refused, len(l.h.unknown))
	}
	if failed > lists/4 { // a second list is refused while the only connection is busy
		t.Errorf("%d of %d lists failed", failed, lists)
	}
	l.end()
}

// cut ends every connection to a database.
func cut(ctx context.Context, by *sql.Conn, database string) error {
	rows, err := by.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", database)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range ids {
		// Error 1094: the connection has already ended.
		if _, err := by.ExecContext(ctx, fmt.Sprint("KILL ", id)); err != nil && !strings.Contains(err.Error(), "1094") {
			return err
		}
	}
	return nil
}

// The database closes connections that were idle for a second. No client gets an error.
func TestSQLConnectionsTimeOut(t *testing.T) {
	t.Attr("proves", "F42")
	t.Parallel()
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	c.db.SetMaxIdleConns(0) // only the server's connections may time out
	if _, err := c.db.Exec("SET GLOBAL wait_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	s := c.start()
	var ids []string
	for range 3 {
		for range 5 {
			ids = append(ids, s.submit("paid", `{}`))
		}
		c.settled(10*time.Second, ids...)
		c.forget(ids[len(ids)-1]) // now only SQL has it
		// Concurrent lists open several connections, of which only one is in use each second: the others become idle.
		var lists sync.WaitGroup
		for range 8 {
			lists.Go(func() { s.list("/admin/jobs", "&status=COMPLETED") })
		}
		lists.Wait()
		<-time.After(1500 * time.Millisecond)
		if p := s.poll(ids[len(ids)-1]); p.Status != "COMPLETED" {
			t.Errorf("polled %+v", p)
		}
		if got := s.list("/admin/jobs", "&status=COMPLETED"); len(got) != len(ids) {
			t.Errorf("%d jobs in a list of %d", len(got), len(ids))
		}
	}
	var name string
	var closed int
	c.row("SHOW GLOBAL STATUS LIKE 'Aborted_clients'", &name, &closed)
	// The driver checks a connection before it uses it. The database may close the connection right after that check:
	// a loop that asks once a second meets the timeout of one second now and then.
	shows := strings.Count(s.Output(), "invalid connection")
	t.Logf("evidence: %d connections were closed for idleness, %d of them in use", closed, shows)
	if closed == 0 || shows*5 > closed {
		t.Error("the fault did not land, or shows")
	}
}

// The database's disk is full: the database refuses rows, or ends. Outcomes wait in Redis, readiness says
// DEGRADED, and submits go on. When there is room again, every row exists once.
func TestSQLDiskFull(t *testing.T) {
	t.Attr("proves", "F44")
	t.Parallel()
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	s := c.start()
	file := filepath.Join(t.TempDir(), "runs")
	ids := []string{s.submit("paid", counting(file, 0))}
	c.settled(10*time.Second, ids...)
	if err := growUpTo(t, m.Pid(), fmt.Sprint(12<<20)); err != nil { // its system tables already have that size
		t.Fatal(err)
	}
	// Dead letters of 60 KB each.
	step := `,{"type":"LOG","message":"` + strings.Repeat("x", 960) + `"}`
	body := `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL"}` + strings.Repeat(step, 60) + `]}}`
	log := filepath.Join(m.Dir(), "mariadb.log")
	full := func() string {
		text, _ := os.ReadFile(log)
		return line(string(text), "preallocating")
	}
	for range 400 {
		ids = append(ids, s.submit("paid", body))
	}
	testkit.Eventually(t, 20*time.Second, "the database has no room", func() (bool, string) {
		return strings.Contains(full(), "failed"), full()
	})
	testkit.Eventually(t, 20*time.Second, "outcomes wait in Redis", func() (bool, string) {
		n := c.rdb.ZCard(t.Context(), "{tierq:0}:outbox").Val()
		return n > 50 && strings.Contains(s.Output(), `"level":"WARN"`), fmt.Sprint(n)
	})
	meanwhile := s.submit("paid", counting(file, 0))
	ids = append(ids, meanwhile)
	s.await(meanwhile, "COMPLETED", 5*time.Second)
	testkit.Eventually(t, 10*time.Second, "readiness is DEGRADED", func() (bool, string) {
		a := do(t, http.MethodGet, s.base+"/readyz?verbose", "")
		return a.status == http.StatusOK && contains(a.body, "DEGRADED"), string(a.body)
	})
	t.Logf("evidence: %s; %d outcomes wait", full(), c.rdb.ZCard(t.Context(), "{tierq:0}:outbox").Val())
	if err := growUpTo(t, m.Pid(), "unlimited"); err != nil || c.db.Ping() != nil {
		t.Log("evidence: the database ended itself")
		if err := m.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.settled(60*time.Second, ids...); len(got) != len(ids) {
		t.Errorf("%d outcomes of %d jobs", len(got), len(ids))
	}
}
