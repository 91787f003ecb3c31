package testkit

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestProcess(t *testing.T) {
	t.Setenv("TESTKIT_INHERITED", "1")
	bin, err := build("./internal/testkit/testdata/echo", nil)
	must(t, err)
	p := StartProcess(t, bin, []string{"GIVEN=yes"}, "one", "two")
	must(t, p.WaitOutput(soon(t), "ready [one two]"))
	if out := p.Output(); !strings.Contains(out, "GIVEN=yes") || !strings.Contains(out, "PATH=") ||
		strings.Contains(out, "INHERITED") {
		t.Errorf("the environment: %s", out)
	}

	must(t, p.Freeze())
	must(t, p.Signal(syscall.SIGTERM))
	short, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.WaitExit(short); !errors.Is(err, context.Canceled) {
		t.Errorf("a frozen process: WaitExit answered %v", err)
	}
	must(t, p.Thaw())
	code, err := p.WaitExit(soon(t))
	must(t, err)
	if code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	must(t, p.WaitOutput(soon(t), "goodbye"))
	if err := p.WaitOutput(soon(t), "never said"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("waiting for what the dead did not say: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to the dead: %v", err)
	}
	must(t, p.Kill())
}

func TestProcessKilled(t *testing.T) {
	t.Parallel()
	bin, err := build("./internal/testkit/testdata/echo", nil)
	must(t, err)
	p := StartProcess(t, bin, nil)
	must(t, p.Freeze())
	must(t, p.Kill())
	code, err := p.WaitExit(soon(t))
	must(t, err)
	if code != -1 {
		t.Errorf("exit code %d, want -1", code)
	}
}

func TestBuildTags(t *testing.T) {
	t.Parallel()
	const pkg = "./internal/testkit/testdata/echo"
	plain, err := build(pkg, nil)
	must(t, err)
	bitter, err := build(pkg, []string{"bitter"})
	must(t, err)
	again, err := build(pkg, nil)
	must(t, err)
	if again != plain || bitter == plain {
		t.Fatalf("plain %s, again %s, bitter %s", plain, again, bitter)
	}
	for bin, want := range map[string]string{plain: " plain\n", bitter: " bitter\n"} {
		must(t, StartProcess(t, bin, nil).WaitOutput(soon(t), want))
	}
	if _, err := build("./internal/testkit/testdata/nothing", nil); err == nil {
		t.Error("built what is not there")
	}
}

func TestMissingProgramSaysWhatToType(t *testing.T) {
	t.Parallel()
	_, err := program("apt-get install -y thing", "no-such-thing")
	if !errors.Is(err, errMissing) || !strings.Contains(err.Error(), "type: apt-get install -y thing") {
		t.Errorf("got %v", err)
	}
}
