package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Every direct requirement of go.mod has its reason in docs/DEPENDENCIES.md, and that page names no other module.
func TestDependenciesPage(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/DEPENDENCIES.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			if listed[name[1]] {
				t.Errorf("%s is listed twice", name[1])
			}
			listed[name[1]] = true
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	direct := 0
	for _, r := range mod.Require {
		if !r.Indirect && r.Path != sdk {
			direct++
			if !listed[r.Path] {
				t.Errorf("docs/DEPENDENCIES.md does not say why %s is here", r.Path)
			}
		}
		delete(listed, r.Path)
	}
	for name := range listed {
		t.Errorf("docs/DEPENDENCIES.md lists %s, which go.mod does not ask for", name)
	}
	if direct < 30 {
		t.Errorf("go.mod has %d libraries of its own", direct)
	}
}

// Every check of a commit looks for known vulnerabilities with a pinned tool, and compares downloads with go.sum.
func TestSupplyChainIsChecked(t *testing.T) {
	for file, parts := range map[string][]string{
		"/.ci/run":  {"\nmake lint\n", "\n.ci/vuln ", "\nmake test\n"},
		"/Makefile": {" go mod verify ", "\tgo -C bench mod verify\n", "\t.ci/vuln\n"},
		"/.ci/vuln": {"golang.org/x/vuln/cmd/govulncheck@v1.", "NOTHING WAS CHECKED"},
	} {
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", file, part)
			}
		}
	}
}
