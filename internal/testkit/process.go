package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Process is a program under test that runs as a real process. It is killed when the test ends, or when the test
// process dies.
type Process struct {
	*child
	output *output
}

// StartProcess starts bin. Its environment is env, PATH, HOME and TMPDIR only, so that a variable of the
// developer's shell cannot change a test. Its output is logged when the test fails. The first process of a test
// waits for Calm.
func StartProcess(t testing.TB, bin string, env []string, args ...string) *Process {
	t.Helper()
	Calm(t)
	p, err := LaunchProcess(bin, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("output of %s (pid %d, %v):\n%s", bin, p.Pid(), p.cmd.ProcessState, p.Output())
		}
	})
	return p
}

// LaunchProcess is StartProcess for a program that is not a test. The caller kills the process; otherwise it dies
// with the caller.
func LaunchProcess(bin string, env []string, args ...string) (*Process, error) {
	cmd := exec.Command(bin, args...)
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, env...) // the last of two equal names counts
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit everything
	}
	out := &output{changed: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 2 * time.Second // a grandchild that holds the pipe must not delay the test
	c, err := startChild(cmd)
	if err != nil {
		return nil, err
	}
	return &Process{child: c, output: out}, nil
}

// Pid returns the process id, also after the process has ended.
func (p *Process) Pid() int { return p.pid() }

// Kill sends SIGKILL, also to a frozen process, and returns when the process is gone. A second call does nothing.
func (p *Process) Kill() error { return p.kill() }

// Signal sends sig. It returns os.ErrProcessDone if the process has ended.
func (p *Process) Signal(sig os.Signal) error { return p.signal(sig) }

// Freeze sends SIGSTOP and returns when the process stands still.
func (p *Process) Freeze() error { return p.freeze() }

// Thaw sends SIGCONT.
func (p *Process) Thaw() error { return p.thaw() }

// Exited says whether the process has ended.
func (p *Process) Exited() bool { return !p.alive() }

// WaitExit returns the exit code, or -1 if a signal ended the process. Its only error is that of ctx.
func (p *Process) WaitExit(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the exit of %d: %w", p.pid(), ctx.Err())
	}
}

// Output returns what the process has written so far, stdout and stderr together.
func (p *Process) Output() string {
	text, _ := p.output.read()
	return text
}

// WaitOutput returns when the output contains substring. It returns an error if the process or ctx ends before
// that.
func (p *Process) WaitOutput(ctx context.Context, substring string) error {
	for {
		// The order matters: ended is read first, so that the text contains all that an ended process wrote.
		ended := !p.alive()
		text, changed := p.output.read()
		if strings.Contains(text, substring) {
			return nil
		}
		var err error
		if ended {
			err = errors.New("the process ended: " + p.cmd.ProcessState.String())
		} else {
			select {
			case <-changed:
			case <-p.exited:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return fmt.Errorf("wait for the output %q: %w; the output so far:\n%s", substring, err, text)
		}
	}
}

// output is a buffer that signals each write.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at every write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}
