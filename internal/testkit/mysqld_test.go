package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The kit starts the program that TEST_REDIS_SERVER names, and writes the version that the server reports to
// TEST_SERVERS_MET.
func TestNamedRedisIsStarted(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		t.Setenv("TEST_REDIS_SERVER", "")
		real, err := redisProgram()
		must(t, err)
		dir := t.TempDir()
		named, ran, servers := filepath.Join(dir, "redis-x"), filepath.Join(dir, "ran"), filepath.Join(dir, "met")
		must(t, os.WriteFile(named, []byte("#!/bin/sh\n: >"+ran+"\nexec "+real+" \"$@\"\n"), 0o700))
		t.Setenv("TEST_REDIS_SERVER", named)
		t.Setenv("TEST_SERVERS_MET", servers)
		r := NewRedis(t)
		if _, err := os.Stat(ran); err != nil {
			t.Errorf("another program was started: %v", err)
		}
		text, err := os.ReadFile(servers)
		must(t, err)
		version, err := r.ask("INFO", "server")
		must(t, err)
		name, number, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if name != "redis" && name != "valkey" || number == "" ||
			!strings.Contains(version.(string), name+"_version:"+number) {
			t.Errorf("noted %q of %s", text, version)
		}
	})
}

// A TEST_MYSQLD that does not start is an error. The kit does not fall back to MariaDB.
func TestNamedMySQLHasNoSubstitute(t *testing.T) {
	t.Run("mariadb", func(t *testing.T) {
		t.Setenv("TEST_MYSQLD", filepath.Join(t.TempDir(), "mysqld"))
		m, err := StartMariaDB()
		if err == nil {
			m.Stop()
			t.Fatal("a server was started all the same")
		}
		if !strings.Contains(err.Error(), "mysqld") {
			t.Error(err)
		}
	})
}
