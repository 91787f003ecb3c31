package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/testkit"
)

// server is a running tierq: a process, or inside this one.
type server struct {
	addr string // of the API; "" without that role
	pid  int    // 0 = it runs inside this process
	done <-chan struct{}
	end  func() (cpu time.Duration, err error)
}

// stop ends the server and returns what CPU its process used; 0 if it ran inside this one. A server that ended by
// itself is an error.
func (s *server) stop() (time.Duration, error) { return s.end() }

// freeAddr finds an address without a listener. It stays this process' own: testkit gives it to no other one.
func freeAddr() (string, error) {
	port, err := testkit.TakePort()
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return "127.0.0.1:" + strconv.Itoa(port), nil
}

// launch starts a server with these settings and returns when its API, if it has one, answers. With -profile it runs
// inside this process.
func (l *lab) launch(ctx context.Context, name, roles string, env []string) (*server, error) {
	env = append([]string{"TIERQ_ROLES=" + roles}, env...)
	// without the api role a server has only its health to serve; the bench does not read it
	addr, listen := "", "127.0.0.1:0"
	if strings.Contains(roles, "api") {
		var err error
		if addr, err = freeAddr(); err != nil {
			return nil, err
		}
		listen = addr
	}
	env = append(env, "TIERQ_ADDR="+listen)
	var s *server
	var err error
	if l.profile != "" {
		if s, err = inside(env, nil); err == nil {
			s, err = l.profiled(name, s)
		}
	} else {
		s, err = l.process(ctx, env)
	}
	if err != nil {
		return nil, err
	}
	s.addr = addr
	return s, s.answers(ctx)
}

// answers waits for the API.
func (s *server) answers(ctx context.Context) error {
	if s.addr == "" {
		return nil
	}
	err := until(ctx, "wait for the API", func() (bool, error) {
		select {
		case <-s.done:
			return false, errors.New("the server ended")
		default:
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
		if err != nil {
			return false, nil //nolint:nilerr // not yet: tried again
		}
		return true, c.Close()
	})
	if err != nil {
		_, stopping := s.stop()
		return errors.Join(err, stopping)
	}
	return nil
}

// process runs the built binary.
func (l *lab) process(ctx context.Context, env []string) (*server, error) {
	if l.bin == "" {
		bin := filepath.Join(l.dir, "tierq")
		if err := build(ctx, bin); err != nil {
			return nil, err
		}
		l.bin = bin
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), l.bin)
	cmd.Dir = l.dir // no .env of the developer's
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start tierq: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the verdict is read from ProcessState
		close(done)
	}()
	return &server{pid: cmd.Process.Pid, done: done, end: func() (time.Duration, error) {
		select {
		case <-done:
			return 0, fmt.Errorf("tierq ended by itself: %v\n%s", cmd.ProcessState, output.String())
		default:
		}
		_ = cmd.Process.Kill() // its work is done, and its data goes away
		<-done
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}}, nil
}

// build compiles the server as its own module has it, with the versions of its own go.mod.
func build(ctx context.Context, bin string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tierq/tierq").Output()
	if err != nil {
		return fmt.Errorf("find tierq's module: %w", err)
	}
	// go run keeps what it linked in the build cache; the program that it is told to start brings us a copy.
	cmd := exec.CommandContext(ctx, "go", "run", "-exec", "cp", "./cmd/tierq", bin)
	cmd.Dir = strings.TrimSpace(string(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build tierq: %w\n%s", err, out)
	}
	return nil
}

// inside runs a server in this process.
func inside(env []string, handlers func(*handler.Registry)) (*server, error) {
	c, err := config.Load(env, "", nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
		ended = app.Run(ctx, c, app.Options{Version: "bench", Out: io.Discard, Log: log, Handlers: handlers})
	}()
	return &server{done: done, end: func() (time.Duration, error) {
		cancel()
		<-done
		return 0, ended
	}}, nil
}

// profiled writes what this process does until the server stops; the last run's profile stays.
func (l *lab) profiled(name string, s *server) (*server, error) {
	if err := os.MkdirAll(l.profile, 0o755); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	f, err := os.Create(filepath.Join(l.profile, name+".pprof"))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	end := s.end
	s.end = func() (time.Duration, error) {
		pprof.StopCPUProfile()
		cpu, err := end()
		return cpu, errors.Join(err, f.Close())
	}
	return s, nil
}
