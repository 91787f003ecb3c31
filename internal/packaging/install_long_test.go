//go:build long

package packaging

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/release"
)

const installed = "v1.98.7"

// `go install github.com/tierq/tierq/cmd/tierq@version` works from a module proxy that has the two modules of this
// checkout, although they contain go.work, and the binary prints its version.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	proxy, bin := t.TempDir(), t.TempDir()
	if err := release.PutModule(proxy, root, server, installed); err != nil {
		t.Fatal(err)
	}
	if err := release.PutModule(proxy, root+"/client", sdk, requiredClient(t)); err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(mustGo(t, root, nil, "env", "GOMODCACHE", "GOPROXY"))
	if len(known) != 2 {
		t.Fatalf("%q", known)
	}
	environ := []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(known[0], "cache", "download") + "," + known[1],
		"GOSUMDB=off", "GOMODCACHE=" + t.TempDir(), "GOBIN=" + bin,
	}
	mustGo(t, t.TempDir(), environ, "install", server+"/cmd/tierq@"+installed)
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "tierq"), "version", "--client").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "tierq "+installed+" (go") {
		t.Errorf("%v: %s", err, out)
	}
}

// Every target of a release compiles. No other test sees code that only some systems have.
func TestReleaseTargets(t *testing.T) {
	dir := t.TempDir()
	for _, target := range release.Targets {
		if files, err := release.Build(t.Context(), root, dir, "v1.98.7", target); err != nil || len(files) != 2 {
			t.Errorf("%v: %v", files, err)
		}
	}
}
