package packaging

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/release"
)

// The same commit gives the same bytes twice. The list names the binary's modules, the checksums match the files,
// and the binary prints its version.
func TestReleaseArchives(t *testing.T) {
	t.Parallel()
	here := release.Target{OS: runtime.GOOS, Arch: runtime.GOARCH}
	var all [2][]string
	for i := range all {
		dir := filepath.Join(t.TempDir(), "dist")
		files, err := release.Build(t.Context(), root, dir, "v1.98.7", here)
		if err != nil {
			t.Fatal(err)
		}
		if err := release.Sums(dir, files); err != nil {
			t.Fatal(err)
		}
		all[i] = append(files, filepath.Join(dir, "SHA256SUMS"))
	}
	for i, name := range all[0] {
		one, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(all[1][i])
		if err != nil || !bytes.Equal(one, two) || filepath.Base(name) != filepath.Base(all[1][i]) {
			t.Errorf("%s and %s differ, %v", name, all[1][i], err)
		}
	}
	out, err := exec.CommandContext(t.Context(), all[0][0], "version", "--client").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "tierq v1.98.7 (") {
		t.Errorf("%v: %s", err, out)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "-c", "--strict", "SHA256SUMS")
	check.Dir = filepath.Dir(all[0][0])
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 2 {
		t.Errorf("%v: %s", err, out)
	}
	var list struct {
		BomFormat, SpecVersion string
		Metadata               struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	text, err := os.ReadFile(all[0][1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, c := range list.Components {
		parts[c.Name] = c.Version
		if c.PURL != "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B") {
			t.Errorf("%+v", c)
		}
	}
	if list.BomFormat != "CycloneDX" || list.Metadata.Component.Name != server ||
		list.Metadata.Component.Version != "v1.98.7" ||
		parts["std"] != strings.TrimPrefix(runtime.Version(), "go") ||
		parts[sdk] == "" ||
		parts["go.uber.org/goleak"] != "" {
		t.Errorf("%+v", list)
	}
	for _, r := range readMod(t, root).Require {
		if used := strings.Contains("github.com/gin-gonic/gin gorm.io/gorm github.com/redis/go-redis/v9", r.Path); used &&
			parts[r.Path] != r.Version {
			t.Errorf("%s is %q in the list, %s in go.mod", r.Path, parts[r.Path], r.Version)
		}
	}
	for _, version := range []string{"", "../v1", "v1 x", "v1/x"} {
		if release.CheckVersion(version) == nil {
			t.Errorf("%q is a version", version)
		}
	}
}
