//go:build failpoint

package handlers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// TestMain runs the tests, or runs as the process that a CRASH job kills.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_CRASH") == "" {
		os.Exit(m.Run())
	}
	ctx := handler.WithRun(context.Background(), handler.Run{ID: "the-job", Attempt: 3})
	defer func() { fmt.Println("recovered", recover()) }()
	_, err := registry().Run(ctx, "CRASH", []byte(os.Getenv("RUN_CRASH")))
	fmt.Println("survived", err)
}

// Each poison ends the process despite every recover, and leaves evidence.
func TestCrashEndsTheProcess(t *testing.T) {
	t.Attr("proves", "F46")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed, fatal := "signal: killed", "exit status 2"
	for _, c := range []struct{ payload, status, says string }{
		{`{"afterMs":5}`, killed, ""},
		{`{"how":"kill"}`, killed, ""},
		{`{"how":"exit"}`, "exit status 3", ""},
		{`{"how":"stack"}`, fatal, "fatal error: stack overflow"},
		{`{"how":"maps"}`, fatal, "fatal error: concurrent map writes"},
		{`{"how":"goroutinePanic"}`, fatal, "panic: a goroutine of the handler"},
		{`{"how":"oom"}`, fatal, "goroutine "}, // the first words depend on the allocation that failed
	} {
		t.Run(c.payload, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "RUN_CRASH="+c.payload)
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			if status := cmd.ProcessState.String(); status != c.status || out.Len() > 0 {
				t.Fatalf("status %q, output %q, want %q and none", status, out.String(), c.status)
			}
			want := fmt.Sprintf("started job=the-job attempt=3 pid=%[1]d\ncrashing job=the-job attempt=3 pid=%[1]d\n",
				cmd.Process.Pid)
			rest, ok := strings.CutPrefix(errs.String(), want)
			if !ok || !strings.Contains(rest, c.says) || (c.says == "") != (rest == "") {
				t.Errorf("stderr = %.500q, want %q, then %q", errs.String(), want, c.says)
			}
		})
	}
	if err := registry().Check("CRASH", []byte(`{"how":"slowly"}`)); err == nil {
		t.Error("an unknown way to die was taken")
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
	ctx := handler.WithRun(t.Context(), handler.Run{ID: "the-job", Attempt: 2})
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
