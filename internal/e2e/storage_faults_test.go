package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/testkit"
)

// init ignores the signal of an overlong file; child processes inherit that. The tests simulate a full disk by a
// limit on the size of files: a write beyond it fails with EFBIG, which Redis and MariaDB treat as ENOSPC.
func init() { signal.Ignore(syscall.SIGXFSZ) }

// growUpTo limits the size of a running process' files; "unlimited" removes the limit.
func growUpTo(t *testing.T, pid int, size string) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "prlimit", "--pid", fmt.Sprint(pid),
		"--fsize="+size+":unlimited").CombinedOutput()
	if err != nil {
		return fmt.Errorf("prlimit (of the package util-linux): %w: %s", err, out)
	}
	return nil
}

// aof returns the file that Redis appends to.
func aof(t testing.TB, r *testkit.Redis) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("append-only files %v, %v", files, err)
	}
	return files[0]
}

// Redis is killed repeatedly while its AOF is synced once a second. The writes that it answered survive, because
// they were written to the file first.
func TestRedisKilledAgain(t *testing.T) {
	t.Attr("proves", "F16")
	t.Parallel()
	c := clusterOn(t, testkit.NewRedis(t, "--appendfsync", "everysec"), databasetest.Migrated(t))
	l := c.underLoad(c.start(), 4, 0)
	// If the disk syncs slowly, Redis delays writes to the file for up to 2 s, and answers anyway.
	l.forgets, l.repeats = true, "an AOF that was written late"
	for range 3 {
		for range 5 { // only Redis has these when it is killed; they are too old to be lost
			l.also = append(l.also, l.s.submit("paid", strings.Replace(counting(l.file, 0), "{", `{"delaySeconds":15,`, 1)))
		}
		<-time.After(3 * time.Second)
		l.suffer(c.redis.Kill, c.redis.Restart, 300*time.Millisecond)
	}
	l.end()
}

// The AOF is damaged in its middle, and Redis refuses to start. The server stays up, refuses submits and gives the
// reason. When the file is repaired, the server continues by itself. Jobs after the damage are lost, and none
// before it.
func TestDamagedAOF(t *testing.T) {
	t.Attr("proves", "F18")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery")
	file := filepath.Join(t.TempDir(), "runs")
	var ids []string
	for range 60 {
		ids = append(ids, s.submit("paid", counting(file, 0)))
	}
	log := aof(t, c.redis)
	if err := c.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text[len(text)/2:], []byte("\r\n*")) + len(text)/2 + 2
	text[at] = '?'
	if err := os.WriteFile(log, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.redis.Restart(); err == nil || !strings.Contains(err.Error(), "Bad file format") {
		t.Fatalf("Redis starts with a damaged file: %v", err)
	} else {
		t.Logf("evidence: byte %d of %d is wrong; %s", at, len(text), line(err.Error(), "Bad file format"))
	}
	testkit.Eventually(t, 5*time.Second, "the gate is closed and says why", func() (bool, string) {
		_, _ = try(http.MethodPost, s.base+"/paid/submit", `{}`)
		a := do(t, http.MethodGet, s.base+"/readyz?verbose", "")
		return a.status == http.StatusServiceUnavailable && contains(a.body, "consecutive errors of the store"),
			string(a.body)
	})
	if a := s.ask("paid", `{}`); a.code() != "SYSTEM_UNHEALTHY" || a.took > bound {
		t.Errorf("a submit: %s %s after %s", a.body, a.code(), a.took)
	}
	fix := exec.CommandContext(t.Context(), "redis-check-aof", "--fix", log)
	fix.Stdin = strings.NewReader("y\n")
	if out, err := fix.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := c.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, reopens, "submits are accepted again", func() (bool, string) {
		a := s.ask("paid", counting(file, 0))
		if a.status == http.StatusAccepted {
			ids = append(ids, accepted(t, a))
		}
		return a.status == http.StatusAccepted, string(a.body)
	})
	kept := 0
	for kept < 60 && c.has(ids[kept]) {
		kept++
	}
	if kept == 0 || kept == 60 {
		t.Fatalf("%d of 60 jobs are left", kept)
	}
	t.Logf("evidence: the first %d of 60 jobs are left", kept)
	c.start("TIERQ_ROLES=worker")
	left := append(ids[:kept:kept], ids[60:]...)
	if got := c.settled(20*time.Second, left...); len(got) != len(left) {
		t.Errorf("%d outcomes of %d jobs: what is lost is more than the end", len(got), len(left))
	}
}

// The disk of the AOF is full. If Redis syncs every second, it refuses writes (MISCONF) until there is room. If it
// always syncs, it ends, and is started again. No accepted job is lost in either case.
func TestDiskFull(t *testing.T) {
	t.Attr("proves", "F43")
	t.Parallel()
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			c := clusterOn(t, testkit.NewRedis(t, "--appendfsync", fsync), databasetest.Migrated(t))
			l := c.underLoad(c.start(), 4, 7000)
			l.fenced = true
			l.suffer(func() error {
				info, err := os.Stat(aof(t, c.redis))
				if err != nil {
					return err
				}
				return growUpTo(t, c.redis.Pid(), fmt.Sprint(info.Size()+4096))
			}, func() error {
				err := c.rdb.Set(t.Context(), "x", "1", 0).Err()
				t.Logf("evidence: a write is answered %v", err)
				switch {
				case fsync == "always" && err != nil:
					log, _ := os.ReadFile(filepath.Join(c.redis.Dir(), "redis.log"))
					if !bytes.Contains(log, []byte("Can't recover from AOF write error")) {
						return errors.New("the end of Redis was another")
					}
					t.Log("evidence: " + line(string(log), "Can't recover from AOF write error"))
					return c.redis.Restart()
				case err == nil || !strings.HasPrefix(err.Error(), "MISCONF"):
					return fmt.Errorf("the disk is not full: %w", err)
				}
				return growUpTo(t, c.redis.Pid(), "unlimited")
			}, 4*time.Second)
			if l.h.refused == 0 {
				t.Error("no submit was refused")
			}
			l.end()
		})
	}
}
