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

	"github.com/tierq/tierq/internal/testkit"
)

// A full disk is played by the largest size a file may have: a write beyond it fails with EFBIG, and Redis and MariaDB
// treat that as they treat ENOSPC. The signal that comes with it is ignored; children inherit that.
func init() { signal.Ignore(syscall.SIGXFSZ) }

// growUpTo bounds the files of a running process; "unlimited" ends it.
func growUpTo(t *testing.T, pid int, size string) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "prlimit", "--pid", fmt.Sprint(pid),
		"--fsize="+size+":unlimited").CombinedOutput()
	if err != nil {
		return fmt.Errorf("prlimit (of the package util-linux): %w: %s", err, out)
	}
	return nil
}

// aof is the file that Redis appends to.
func aof(t testing.TB, r *testkit.Redis) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("append-only files %v, %v", files, err)
	}
	return files[0]
}

// Redis is killed again and again while its AOF is synced once a second: what it answered survives, because it was
// written before.
func TestRedisKilledAgain(t *testing.T) {
	t.Attr("proves", "F16")
	t.Parallel()
	c := clusterOn(t, testkit.NewRedis(t, "--appendfsync", "everysec"), testkit.SharedMariaDB(t))
	l := c.underLoad(c.start(), 4, 0)
	// On a disk that takes long to sync Redis puts the write off for up to 2 s, and answers all the same.
	l.forgets, l.repeats = true, "an AOF that was written late"
	for range 3 {
		for range 5 { // nobody but Redis has these when it is killed, and they are older than what may be lost
			l.also = append(l.also, l.s.submit("paid", strings.Replace(counting(l.file, 0), "{", `{"delaySeconds":15,`, 1)))
		}
		<-time.After(3 * time.Second)
		l.suffer(c.redis.Kill, c.redis.Restart, 300*time.Millisecond)
	}
	l.end()
}

// The AOF is damaged in its middle: Redis refuses to start. The server stays, refuses submits and says why; with the
// file repaired it goes on by itself. What came after the damage is lost, and nothing before it.
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
	for kept < 60 && c.rdb.Exists(t.Context(), "{tierq:0}:job:metadata:"+ids[kept]).Val() == 1 {
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

// The disk of the AOF is full. Synced every second, Redis refuses writes (MISCONF) until there is room; synced always,
// it ends itself, and is started again. Nothing accepted is lost either way.
func TestDiskFull(t *testing.T) {
	t.Attr("proves", "F43")
	t.Parallel()
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			c := clusterOn(t, testkit.NewRedis(t, "--appendfsync", fsync), testkit.SharedMariaDB(t))
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
