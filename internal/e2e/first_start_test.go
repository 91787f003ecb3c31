package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // to read the file of a killed server

	"github.com/tierq/tierq/internal/testkit"
)

// A first start is killed after it has made the table of versions and before the table's first row. The next start
// continues and serves.
func TestFirstStartKilledAtTheVersions(t *testing.T) {
	t.Parallel()
	for name, killed := range firstStarts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := killed(t)
			p := testkit.StartProcess(t, f.bin, append(f.env, "TIERQ_FAILPOINTS=versions.made=kill"), "serve")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := p.WaitOutput(ctx, "failpoint versions.made hit"); err != nil {
				t.Fatal(err)
			}
			if code, err := p.WaitExit(ctx); err != nil || code != -1 {
				t.Fatalf("exit %d, %v: not killed", code, err)
			}
			t.Logf("evidence: pid %d was killed at the failpoint; it left %s", p.Pid(), f.left())
			firstJob(t, startServer(t, f.bin, f.env...))
		})
	}
}

// A first start is killed at a random moment, repeatedly, each time on a fresh database. Every next start runs a
// job. Half of the moments are spread over a whole first start. The others are meant to hit the migrations: they
// lie between the latest moment that left no table and the earliest that left all of them.
func TestFirstStartKilledAnywhere(t *testing.T) {
	t.Parallel()
	for name, killed := range firstStarts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := killed(t)
			began := time.Now()
			s := startServer(t, f.bin, f.env...)
			whole := 2 * time.Since(began) // the next starts may take longer
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			all, none := f.left(), "no table of versions"
			left := map[string]int{}
			first, last := time.Duration(0), whole
			// A busy machine can make the first start many times slower than the others. Then more kills, each nearer to the
			// beginning, find the moment between two states.
			n := 0
			for ; n < firstStartKills || len(left) < 2 && n < 4*firstStartKills; n++ {
				f := killed(t)
				p := testkit.StartProcess(t, f.bin, f.env, "serve")
				const spread = firstStartKills / 2
				moment := first + time.Duration(rand.Float64()*float64(last-first))
				if n < spread {
					moment = time.Duration((float64(n) + rand.Float64()) / spread * float64(whole))
				}
				<-time.After(moment)
				if err := p.Kill(); err != nil {
					t.Fatal(err)
				}
				state := f.left()
				left[state]++
				switch {
				case state == none && left[all] == 0: // this start is slower than the first one was
					first = max(first, moment)
					last = max(whole, 2*first)
				case state == none && moment < last:
					first = max(first, moment)
				case state == all && moment > first:
					last = min(last, moment)
				}
				t.Logf("killed after %s, it left %s", moment, state) // context for a failure below
				s := startServer(t, f.bin, f.env...)
				s.await(s.submit("paid", "{}"), "COMPLETED", 20*time.Second)
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("evidence: %d kills within %s left %v", n, whole.Round(time.Millisecond), left)
			if len(left) < 2 {
				t.Error("all kills came at the same moment")
			}
		})
	}
}

// Three processes have their first start at the same moment, on an empty database: each migration runs once. Then
// each process is replaced in turn, and jobs are accepted and run throughout.
func TestFirstStartsAtOnceThenRolling(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	servers := make([]*server, 3)
	for i := range servers {
		servers[i] = &server{t: t, Process: testkit.StartProcess(t, c.bin, []string{
			"REDIS_URL=" + c.redis.URL(), "MYSQL_DSN=" + c.dsn, "TIERQ_INSECURE=on",
			"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(),
		}, "serve")}
	}
	migrated := 0
	for _, s := range servers {
		s.waitFor("this process", 60*time.Second)
		s.base = listening.FindStringSubmatch(s.Output())[1]
		migrated += strings.Count(s.Output(), `"schema migrated"`)
	}
	var ids []string
	for i := range servers {
		ids = append(ids, servers[i].submit("paid", "{}"))
		if code, _ := servers[i].terminate(20 * time.Second); code != 0 {
			t.Errorf("server %d: exit %d", i, code)
		}
		servers[i] = c.start()
		ids = append(ids, servers[i].submit("public", "{}"))
	}
	var newest int
	c.row("SELECT MAX(version_id) FROM goose_db_version", &newest)
	t.Logf("evidence: three first starts at once applied %d migrations, the newest is %d", migrated, newest)
	if migrated != newest {
		t.Errorf("%d migrations were applied %d times", newest, migrated)
	}
	for id, outcome := range c.settled(30*time.Second, ids...) {
		if outcome != "COMPLETED" {
			t.Errorf("%s is %s", id, outcome)
		}
	}
}

// firstStart is a server that has never run, and a function that reports what a killed one has left in its
// database.
type firstStart struct {
	bin  string
	env  []string
	left func() string
}

// firstStarts returns functions that make a server which has never run, for each kind of database.
func firstStarts(t *testing.T) map[string]func(t *testing.T) firstStart {
	t.Helper()
	bin := testkit.BuildTierq(t, "failpoint")
	return map[string]func(t *testing.T) firstStart{
		"sqlite": func(t *testing.T) firstStart {
			dir := t.TempDir()
			return firstStart{bin, []string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + dir}, func() string {
				return versionsIn(t, "sqlite3", "file:"+filepath.Join(dir, "tierq.sqlite")+"?_pragma=busy_timeout(5000)")
			}}
		},
		"redis and mariadb": func(t *testing.T) firstStart {
			dsn := testkit.SharedMariaDB(t)
			env := []string{
				"REDIS_URL=" + testkit.SharedRedisDB(t), "MYSQL_DSN=" + dsn, "TIERQ_INSECURE=on",
				"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(),
			}
			return firstStart{bin, env, func() string { return versionsIn(t, "mysql", dsn) }}
		},
	}
}

// versionsIn describes how many migrations a database has.
func versionsIn(t *testing.T, driver, dsn string) string {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM goose_db_version").Scan(&n); err != nil {
		return "no table of versions"
	}
	return fmt.Sprintf("%d versions", n)
}
