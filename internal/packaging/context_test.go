package packaging

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The image's build gets every file of the binary: .dockerignore excludes none of them.
func TestBuildContextIsWhole(t *testing.T) {
	const root = "../.."
	rules, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,EmbedFiles",
		"./cmd/tierq")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir     string
			GoFiles, EmbedFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, "github.com/tierq/tierq") {
			continue
		}
		for _, f := range append(p.GoFiles, p.EmbedFiles...) {
			rel, err := filepath.Rel(whole, filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			files++
			if ignored(string(rules), filepath.ToSlash(rel)) {
				t.Errorf("%s is left out of the image's build", rel)
			}
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "go.work", "client/go.mod", "worker/go.mod"} {
		if ignored(string(rules), name) {
			t.Errorf("%s is left out of the image's build: it says which modules are built", name)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
	for name, want := range map[string]bool{".git/config": true, "docs/API.md": true, "docs/openapi.yaml": false,
		".env": true, "data/x/y": true, "lua/claim.lua": false} {
		if got := ignored(string(rules), name); got != want {
			t.Errorf("%s is left out: %v", name, got)
		}
	}
}

// ignored applies Docker's rule to the kinds of patterns in .dockerignore: the last pattern that matches a file,
// or a folder above it, decides.
func ignored(rules, name string) bool {
	out := false
	for lines := bufio.NewScanner(strings.NewReader(rules)); lines.Scan(); {
		pattern, again := strings.CutPrefix(strings.TrimSpace(lines.Text()), "!")
		for above := name; above != "."; above = path.Dir(above) {
			if ok, _ := path.Match(pattern, above); ok {
				out = !again
			}
		}
	}
	return out
}
