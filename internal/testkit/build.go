package testkit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var binaries = struct {
	sync.Mutex
	dir  string
	path map[string]string // package and tags -> path
}{path: map[string]string{}}

// BuildTierq builds ./cmd/tierq with these build tags and returns the binary's path. It builds once per process
// and set of tags. StopShared removes the binary.
func BuildTierq(t testing.TB, tags ...string) string {
	t.Helper()
	path, err := build("./cmd/tierq", tags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build is BuildTierq for a program that is not a test.
func Build(tags ...string) (string, error) { return build("./cmd/tierq", tags) }

// BuildChanged builds ./cmd/tierq into the file path, with some source files replaced. The file overlay names them
// (go help build).
func BuildChanged(ctx context.Context, path, overlay string, tags ...string) error {
	return compile(ctx, path, "./cmd/tierq", tags, "-overlay", overlay)
}

// build builds a package, whose path is relative to the module's root.
func build(pkg string, tags []string) (string, error) {
	binaries.Lock()
	defer binaries.Unlock()
	key := pkg + " " + strings.Join(tags, ",")
	if path, done := binaries.path[key]; done {
		return path, nil
	}
	if binaries.dir == "" {
		var err error
		if binaries.dir, err = os.MkdirTemp("", "testkit-bin-"); err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	path := filepath.Join(binaries.dir, fmt.Sprintf("%s-%d", filepath.Base(pkg), len(binaries.path)))
	if err := compile(context.Background(), path, pkg, tags); err != nil {
		return "", err
	}
	binaries.path[key] = path
	return path, nil
}

// compile builds with the Makefile's flags, so that both share Go's build cache.
//
// go run keeps linked programs in Go's build cache, by their content; go build does not. So the processes of one
// go test run link a program only once between them, and no process gets a stale one. The program that go run
// starts is cp, which copies the linked program to path.
func compile(ctx context.Context, path, pkg string, tags []string, flags ...string) error {
	env, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	list := strings.Join(append([]string{"nomsgpack"}, tags...), ",")
	args := slices.Concat([]string{"run", "-exec", "cp", "-trimpath", "-tags", list}, flags, []string{pkg, path})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(env)))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as the release is built, also when the race detector runs the tests
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func removeBinaries() {
	binaries.Lock()
	defer binaries.Unlock()
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
	binaries.dir = ""
	clear(binaries.path)
}
