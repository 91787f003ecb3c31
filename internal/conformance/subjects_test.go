package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// languages are those of the worker libraries, with the folder of each library.
var languages = map[string]string{"go": "worker", "node": "sdk/node", "python": "sdk/python"}

// program is how a worker is started whose handlers misbehave.
type program struct {
	language, bin string
	args, env     []string
}

// repository is the checkout's folder.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// programOf returns the program of a language, with the library of the checkout, or the pool. It is made once.
func programOf(t testing.TB, language string) program {
	t.Helper()
	made.Lock()
	m := made.programs[language]
	if m == nil {
		m = &making{}
		made.programs[language] = m
	}
	made.Unlock()
	m.Do(func() {
		dir, err := os.MkdirTemp(made.dir, language) //nolint:usetesting // all tests share it
		switch {
		case err != nil:
			t.Fatal(err)
		case language == "pool":
			m.program = makePool(t, dir)
		default:
			m.program = makeProgram(t, language, filepath.Join(repository(t), languages[language]), dir)
		}
	})
	if m.program.bin == "" {
		t.Fatal("the program could not be made; another test says why")
	}
	return m.program
}

// made holds the programs that all tests share; TestMain removes its folder.
var made = struct {
	sync.Mutex
	dir      string
	programs map[string]*making
}{programs: map[string]*making{}}

type making struct {
	sync.Once
	program program
}

// makeProgram makes the program of a language in a folder, with a library that may be a changed one.
func makeProgram(t testing.TB, language, library, dir string) program {
	t.Helper()
	subjects := filepath.Join(repository(t), "internal", "conformance", "testdata")
	switch language {
	case "python":
		env := []string{"PYTHONPATH=" + library, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"}
		return program{language, "python3", []string{filepath.Join(subjects, "subject.py")}, env}
	case "node":
		modules := filepath.Join(dir, "node_modules")
		copyFile(t, filepath.Join(subjects, "subject.mjs"), filepath.Join(dir, "subject.mjs"), nil)
		if err := os.MkdirAll(modules, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(library, filepath.Join(modules, "tierq")); err != nil {
			t.Fatal(err)
		}
		return program{language: language, bin: "node", args: []string{filepath.Join(dir, "subject.mjs")}}
	}
	const path = "github.com/tierq/tierq/worker"
	copyGo(t, filepath.Join(subjects, "subject_go"), dir, nil)
	const module = "module example.com/subject\n\ngo 1.26.0\n\nrequire %s v0.1.0\n\nreplace %[1]s => %s\n"
	mod := fmt.Sprintf(module, path, library)
	write(t, filepath.Join(dir, "go.mod"), mod)
	return program{language: language, bin: buildGo(t, dir)}
}

// makePool makes a server whose pool has the same handlers in Go.
func makePool(t testing.TB, dir string) program {
	t.Helper()
	root := repository(t)
	subjects := filepath.Join(root, "internal", "conformance", "testdata")
	copyGo(t, filepath.Join(subjects, "subject_go"), dir, func(text string) string {
		return strings.ReplaceAll(text, "github.com/tierq/tierq/worker", "github.com/tierq/tierq/server")
	})
	copyGo(t, filepath.Join(subjects, "subject_pool"), dir, nil) // its main.go replaces the worker's
	const tierq = "github.com/tierq/tierq"
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(mod), "module example.com/own")
	text += fmt.Sprintf("\nrequire %s v0.1.0\n\nreplace %[1]s => %s\n", tierq, root)
	text += fmt.Sprintf("\nreplace %s/client => %s/client\n", tierq, root)
	write(t, filepath.Join(dir, "go.mod"), text)
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"), nil)
	return program{language: "pool", bin: buildGo(t, dir, "-mod=mod")}
}

func buildGo(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	args := slices.Concat([]string{"build", "-trimpath", "-tags=nomsgpack", "-ldflags=-s -w", "-o", "subject"}, flags)
	build := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "subject")
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if change == nil {
		change = func(text string) string { return text }
	}
	write(t, to, change(string(text)))
}

// copyGo copies the Go files of a folder.
func copyGo(t testing.TB, from, to string, change func(string) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", from, err)
	}
	for _, file := range files {
		copyFile(t, file, filepath.Join(to, filepath.Base(file)), change)
	}
}

// start starts the program as a worker of a fake server. Unlike testkit.StartProcess it waits for no calm: the bounds
// here are wider than those of a server.
func (p program) start(t testing.TB, f *fake) *testkit.Process {
	t.Helper()
	worker, err := testkit.LaunchProcess(p.bin, append([]string{"TIERQ_URL=" + f.URL}, p.env...), p.args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := worker.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the output of %s:\n%s", p.language, tail(worker.Output()))
		}
	})
	return worker
}

// ends sends SIGTERM, and returns what is wrong with the end.
func ends(t testing.TB, p *testkit.Process, most time.Duration) error {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the worker had ended before SIGTERM: %w", err)
	}
	return exits(t, p, 0, most)
}

// exits waits for the end of a process, and returns what is wrong with it.
func exits(t testing.TB, p *testkit.Process, want int, most time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	code, err := p.WaitExit(ctx)
	if err == nil && code != want {
		err = fmt.Errorf("exit %d, want %d", code, want)
	}
	return err
}

// TestMain lets many tests run at once: they wait for most of their time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(8*runtime.GOMAXPROCS(0))); err != nil { // -parallel still wins
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	made.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
