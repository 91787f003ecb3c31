//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary the process that is hit: with HIT_POINT set it passes that point HIT_TIMES times.
func TestMain(m *testing.M) {
	name := os.Getenv("HIT_POINT")
	if name == "" {
		os.Exit(m.Run())
	}
	times, _ := strconv.Atoi(os.Getenv("HIT_TIMES"))
	for range times {
		Hit(name, "a", "b")
		fmt.Println("passed")
	}
}

func passes(t *testing.T, spec, name, times string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "TIERQ_FAILPOINTS="+spec, "HIT_POINT="+name, "HIT_TIMES="+times)
	return cmd
}

func TestHitKills(t *testing.T) {
	cases := []struct {
		name, spec, point, times string
		passed                   int
		killed                   bool
	}{
		{"at once", "claim.after=kill", "claim.after", "3", 0, true},
		{"at the second hit", "record.after=sleep:1ns,claim.after=kill@2", "claim.after", "3", 1, true},
		{"not before the hit it names", "claim.after=kill@4", "claim.after", "3", 3, false},
		{"not at another point", "claim.after=kill", "claim.before", "3", 3, false},
		{"sleep goes on", "claim.after=sleep:1ms", "claim.after", "3", 3, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs strings.Builder
			cmd := passes(t, c.spec, c.point, c.times)
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.Signaled() != c.killed || c.killed && status.Signal() != syscall.SIGKILL {
				t.Fatalf("ended with %v, want killed = %v", err, c.killed)
			}
			if got := strings.Count(out.String(), "passed"); got != c.passed {
				t.Errorf("passed the point %d times, want %d", got, c.passed)
			}
			evidence := fmt.Sprintf("failpoint %s hit pid=%d jobs=a,b\n", c.point, cmd.Process.Pid)
			if c.killed && errs.String() != evidence {
				t.Errorf("stderr = %q, want the evidence %q", errs.String(), evidence)
			}
		})
	}
}

// A process that stops passes its point only after SIGCONT, at every hit, even on a busy machine.
func TestHitStops(t *testing.T) {
	const times = 50
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := passes(t, "claim.after=stop", "claim.after", strconv.Itoa(times))
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for n := range times {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("stop %d: %v, status %v, want stopped", n, err, status)
		}
		if said, err := os.ReadFile(out.Name()); err != nil || strings.Count(string(said), "passed") != n {
			t.Fatalf("at stop %d it said %q (%v), want %d passes", n, said, err, n)
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	got, err := parse("a.b=kill@3, c=sleep:20ms,d=stop,")
	if err != nil {
		t.Fatal(err)
	}
	if p := got["a.b"]; p == nil || p.action != kill || p.only != 3 {
		t.Errorf("a.b = %+v", p)
	}
	if p := got["c"]; p == nil || p.action != sleep || p.pause != 20*time.Millisecond || p.only != 0 {
		t.Errorf("c = %+v", p)
	}
	if p := got["d"]; p == nil || p.action != stop {
		t.Errorf("d = %+v", p)
	}
	for _, bad := range []string{"a", "=kill", "a=explode", "a=kill@0", "a=kill@x", "a=sleep", "a=sleep:-1s", "a=kill:now",
		"a=kill,a=stop"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("parse(%q) has no error", bad)
		}
	}
}
