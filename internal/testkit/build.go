package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var binaries = struct {
	sync.Mutex
	dir  string
	path map[string]string // package and tags -> path
}{path: map[string]string{}}

// BuildTierq builds ./cmd/tierq with these build tags and returns the binary's path, once per process and tags. StopShared
// removes it.
func BuildTierq(t testing.TB, tags ...string) string {
	t.Helper()
	path, err := build("./cmd/tierq", tags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build is BuildTierq for a program that is no test.
func Build(tags ...string) (string, error) { return build("./cmd/tierq", tags) }

// build takes a package path relative to the module's root.
func build(pkg string, tags []string) (string, error) {
	binaries.Lock()
	defer binaries.Unlock()
	list := strings.Join(append([]string{"nomsgpack"}, tags...), ",") // the Makefile's tag: what it compiled serves here too
	key := pkg + " " + list
	if path, done := binaries.path[key]; done {
		return path, nil
	}
	env, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	if binaries.dir == "" {
		if binaries.dir, err = os.MkdirTemp("", "testkit-bin-"); err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	path := filepath.Join(binaries.dir, fmt.Sprintf("%s-%d", filepath.Base(pkg), len(binaries.path)))
	cmd := exec.Command("go", "build", "-trimpath", "-tags", list, "-o", path, pkg)
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(env)))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	binaries.path[key] = path
	return path, nil
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
