package testkit

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const installRedis = "apt-get install -y redis-server"

// Redis is a real redis-server that the kit started. By default it keeps an AOF with appendfsync always, so that
// Kill loses no write that was answered, and it never evicts.
type Redis struct {
	*server
}

// NewRedis starts a redis-server for one test and stops it when the test ends. The args are redis-server's own and
// override the defaults: "--appendfsync", "everysec".
func NewRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	return NewRedisUnder(t, nil, args...)
}

// NewRedisUnder is NewRedis with the server started through another command, which must exec the server: env
// LD_PRELOAD=..., for example.
func NewRedisUnder(t testing.TB, under []string, args ...string) *Redis {
	t.Helper()
	r, err := startRedis(under, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// StartRedis starts a redis-server and returns when it answers PING. The caller stops it.
func StartRedis(args ...string) (*Redis, error) { return startRedis(nil, args) }

func startRedis(under, args []string) (*Redis, error) {
	bin, err := redisProgram()
	if err != nil {
		return nil, err
	}
	for range attempts {
		var r *Redis
		if r, err = tryRedis(append(slices.Clone(under), bin), args); err == nil {
			return r, nil
		}
	}
	return nil, err
}

func tryRedis(line, args []string) (*Redis, error) {
	s, err := newServer("redis")
	if err != nil {
		return nil, err
	}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(line[0], append(append(slices.Clone(line[1:]),
			"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", s.log(), "--daemonize", "no",
			"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
		), args...)...)
		cmd.Dir = s.dir
		return cmd
	}
	s.ready = func(pid int) error { return redisIs(s.Addr(), pid) }
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return &Redis{server: s}, nil
}

// redisIs checks that the server on addr answers PING and has this process id. If another process took the port,
// another server answers there.
func redisIs(addr string, pid int) error {
	// The client's pool would retry a refused dial for half a second, and log it.
	knock, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	_ = knock.Close()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, DialTimeout: time.Second})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	info := c.InfoMap(ctx, "server")
	if err := info.Err(); err != nil {
		return fmt.Errorf("info: %w", err)
	}
	if got := info.Item("Server", "process_id"); got != strconv.Itoa(pid) {
		return fmt.Errorf("process %q answers, not ours (%d)", got, pid)
	}
	if version := info.Item("Server", "valkey_version"); version != "" { // redis_version: its compatible Redis
		return met("valkey", version)
	}
	return met("redis", info.Item("Server", "redis_version"))
}

// URL returns redis://host:port/0.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }
