package testkit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// child is a process that the kit started and that dies with the test process.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// startChild starts cmd such that the kernel kills it when this process dies.
//
// The parent death signal is tied to the thread that forked, not to the process. So one goroutine locks that
// thread from the fork until the child is reaped. Without the lock the runtime could retire the thread, and the
// kernel would kill the child in the middle of a test.
func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = dieWithParent()
	c := &child{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // callers read the result from cmd.ProcessState
		close(c.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) alive() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// signal returns os.ErrProcessDone when the process has ended.
func (c *child) signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// kill sends SIGKILL, which also ends a frozen process, and waits until the process is gone. A second call does
// nothing.
func (c *child) kill() error {
	if err := c.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %d: %w", c.pid(), err)
	}
	<-c.exited
	return nil
}

// freeze sends SIGSTOP and returns when every thread of the process has stopped. On a busy machine that takes seconds.
func (c *child) freeze() error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %d: %w", c.pid(), err)
	}
	return poll(20*time.Second, func() error {
		if !stopped(c.pid()) {
			return fmt.Errorf("freeze %d: it still runs", c.pid())
		}
		return nil
	})
}

func (c *child) thaw() error {
	if err := c.signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw %d: %w", c.pid(), err)
	}
	return nil
}

// errMissing means that a program is not installed.
var errMissing = errors.New("not installed")

// program finds one of the names on PATH or in the usual folders of servers, which users' PATHs often lack.
func program(install string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		for _, folder := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"} {
			if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s is %w; type: %s", names[0], errMissing, install)
}

// tail returns the end of a log file, for error messages.
func tail(path string) string {
	const most = 4096
	f, err := os.Open(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > most {
		_, err = f.Seek(-most, io.SeekEnd)
		if err != nil {
			return "(no log: " + err.Error() + ")"
		}
	} else {
		_, _ = f.Seek(0, io.SeekStart)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
