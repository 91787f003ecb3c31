package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/testkit"
)

// fakServer is one side of the comparison: a server that speaks Faktory's protocol, with its Redis.
type fakServer struct {
	addr  string
	pid   int                                        // 0 = inside this process
	redis *lab                                       // whose redisCPU is that of the Redis behind it
	all   func(ctx context.Context, ended int) error // waits until so many ended jobs are where they are kept, and counts
	end   func() error
}

// The servers: tierq's gateway, the server of Faktory as it comes, and the same with the AOF that tierq's Redis has.
const (
	fakGateway = "tierq"
	fakAsItIs  = "Faktory"
	fakWithAOF = "Faktory, AOF"
)

// startFaktory starts a server on empty stores.
func (l *lab) startFaktory(ctx context.Context, name string) (*fakServer, error) {
	if name == fakGateway {
		return l.startGateway(ctx)
	}
	return l.startReal(ctx, name == fakWithAOF)
}

func (l *lab) startGateway(ctx context.Context) (*fakServer, error) {
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "faktory", "api,recovery", append(env, "TIERQ_FAKTORY_ADDR="+addr))
	if err != nil {
		return nil, err
	}
	f := &fakServer{addr: addr, pid: s.pid, redis: l}
	f.all = func(ctx context.Context, ended int) error {
		if err := until(ctx, "wait for SQL", func() (bool, error) {
			n, err := l.counter(ctx, "acknowledged")
			return n >= ended, err
		}); err != nil {
			return err
		}
		return l.allThere(ctx, database, ended)
	}
	f.end = func() error {
		_, err := s.stop()
		return err
	}
	if err := f.answers(ctx); err != nil {
		return nil, errors.Join(err, f.end())
	}
	return f, nil
}

// answers waits until a client can connect.
func (f *fakServer) answers(ctx context.Context) error {
	return until(ctx, "wait for the listener", func() (bool, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", f.addr)
		if err != nil {
			return false, nil //nolint:nilerr // not yet: tried again
		}
		return true, c.Close()
	})
}

// fakConfig is where the server of Faktory writes the settings of its Redis, whatever its own settings are.
const fakConfig = "/tmp/redis.conf"

// startReal starts the server of Faktory with a Redis of its own, which it starts itself.
func (l *lab) startReal(ctx context.Context, aof bool) (*fakServer, error) {
	bin := filepath.Join(l.dir, "faktory")
	if _, err := os.Stat(bin); err != nil {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/contribsys/faktory/cmd/faktory").
			CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("build the server of Faktory: %w\n%s", err, out)
		}
	}
	dir, err := os.MkdirTemp(l.dir, "faktory-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	web, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(fakConfig); errors.Is(err, os.ErrNotExist) {
		defer os.Remove(fakConfig) // its Redis has read it by then
	}
	p, err := testkit.LaunchProcess(bin, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, "-b", addr, "-w", web,
		"-e", "development", "-l", "warn", "-d", filepath.Join(dir, "db"), "-c", filepath.Join(dir, "etc"))
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(dir, "db", "redis.sock"), Protocol: 2})
	f := &fakServer{addr: addr, pid: p.Pid(), redis: &lab{client: client}}
	f.all = func(ctx context.Context, ended int) error { return realCounts(ctx, addr, ended) }
	f.end = func() error {
		_ = client.Close()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		err := p.Signal(syscall.SIGTERM) // it ends its Redis
		if err == nil {
			_, err = p.WaitExit(stopping)
		}
		return errors.Join(err, p.Kill())
	}
	if err = f.answers(ctx); err == nil && p.Exited() {
		err = errors.New("the server of Faktory ended: " + p.Output())
	}
	if err == nil && aof {
		err = errors.Join(client.ConfigSet(ctx, "appendfsync", "everysec").Err(),
			client.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(),
			client.ConfigSet(ctx, "appendonly", "yes").Err())
	}
	if err != nil {
		return nil, errors.Join(err, f.end())
	}
	return f, nil
}

// realCounts asks the server of Faktory what it has: all jobs ended, none failed, none waits.
func realCounts(ctx context.Context, addr string, ended int) error {
	c, err := dialFaktory(ctx, addr, "")
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if _, err := c.nc.Write([]byte("INFO\r\n")); err != nil {
		return fmt.Errorf("INFO: %w", err)
	}
	text, err := c.bulk()
	if err != nil {
		return err
	}
	var info struct {
		Faktory struct {
			Processed int64 `json:"total_processed"`
			Failures  int64 `json:"total_failures"`
			Enqueued  int64 `json:"total_enqueued"`
		} `json:"faktory"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("INFO: %w", err)
	}
	if has := info.Faktory; has.Processed != int64(ended) || has.Failures != 0 || has.Enqueued != 0 {
		return fmt.Errorf("INFO says %+v, and %d jobs ended", has, ended)
	}
	return nil
}
