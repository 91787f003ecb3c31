//go:build failpoint

package handlers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// TestMain lets the test binary be the process that a CRASH job kills.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_CRASH") == "" {
		os.Exit(m.Run())
	}
	ctx := job.WithRun(context.Background(), job.Run{ID: "the-job", Attempt: 3})
	_, err := registry().Run(ctx, "CRASH", []byte(`{"afterMs":5}`))
	fmt.Println("survived", err)
}

func TestCrashKillsTheProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RUN_CRASH=1")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL || out.Len() > 0 {
		t.Fatalf("status %v, output %q, want killed", status, out.String())
	}
	want := fmt.Sprintf("started job=the-job attempt=3 pid=%[1]d\ncrashing job=the-job attempt=3 pid=%[1]d\n", cmd.Process.Pid)
	if errs.String() != want {
		t.Errorf("stderr = %q, want %q", errs.String(), want)
	}
}

func TestHangIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if _, err := registry().Run(ctx, "HANG", []byte(`{"forMs":5000}`)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("returned after %v", took)
		}
	})
}

func TestCountWritesStartAndEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	ctx := job.WithRun(t.Context(), job.Run{ID: "the-job", Attempt: 2})
	payload := []byte(fmt.Sprintf(`{"file":%q,"sleepMs":1}`, file))
	for range 2 {
		if _, err := registry().Run(ctx, "COUNT", payload); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	once := fmt.Sprintf("the-job 2 %[1]d start\nthe-job 2 %[1]d end\n", os.Getpid())
	if string(got) != once+once {
		t.Errorf("file = %q, want %q twice", got, once)
	}
	if err := registry().Check("COUNT", []byte(`{}`)); err == nil {
		t.Error("a count without a file was taken")
	}
}
