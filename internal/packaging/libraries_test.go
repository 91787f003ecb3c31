package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runs runs a program in a folder, and returns its output.
func runs(t *testing.T, dir string, environ []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// library is the absolute path of a library's folder.
func library(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "sdk", name))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPythonLibrary(t *testing.T) {
	t.Parallel()
	out := runs(t, library(t, "python"), nil, "python3", "-W", "error::ResourceWarning", "-m", "unittest")
	if !strings.Contains(out, "\nOK") || strings.Contains(out, "Ran 0") || strings.Contains(out, "ResourceWarning") {
		t.Errorf("%s", out)
	}
}

// pip needs no other package, and leaves nothing in the checkout.
func TestPythonLibrary_Installs(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), library(t, "python")
	before := names(t, from)
	runs(t, dir, []string{"PIP_NO_INDEX=1"}, "python3", "-m", "pip", "install", "--disable-pip-version-check", "--target",
		filepath.Join(dir, "site"), from)
	if after := names(t, from); !slices.Equal(before, after) {
		t.Errorf("the installation left %v of %v", after, before)
	}
	for _, name := range []string{"py.typed", "worker.py"} {
		if _, err := os.Stat(filepath.Join(dir, "site", "tierq", name)); err != nil {
			t.Error(err)
		}
	}
	script := "import importlib.metadata, tierq; print(tierq.__version__, importlib.metadata.version('tierq'))"
	if out := runs(t, dir, []string{"PYTHONPATH=" + filepath.Join(dir, "site")}, "python3", "-c", script); out !=
		"0.1.0 0.1.0\n" {
		t.Errorf("the installed package says %q", out)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestNodeLibrary(t *testing.T) {
	t.Parallel()
	if out := runs(t, library(t, "node"), nil, "npm", "test"); !strings.Contains(out, "# fail 0\n") {
		t.Errorf("%s", out)
	}
}

// npm installs the library without asking another host, and the package has what a program needs.
func TestNodeLibrary_Installs(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), library(t, "node")
	writeFiles(t, dir, map[string]string{
		"package.json": `{"private": true}`,
		"main.mjs":     "import * as tierq from 'tierq';\nconsole.log(Object.keys(tierq).sort().join(' '));\n",
	})
	offline := []string{"npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false",
		"npm_config_update_notifier=false"}
	runs(t, dir, offline, "npm", "install", from)
	exported := strings.Fields(runs(t, dir, nil, "node", "main.mjs"))
	typed := typedClasses(t, from)
	if slices.Sort(typed); !slices.Equal(typed, exported) {
		t.Errorf("the types have %v, the module %v", typed, exported)
	}
	var packed []struct{ Files []struct{ Path string } }
	out := runs(t, from, offline, "npm", "pack", "--dry-run", "--json", "--loglevel=silent")
	if err := json.Unmarshal([]byte(out), &packed); err != nil || len(packed) != 1 {
		t.Fatalf("%v in %s", err, out)
	}
	var files []string
	for _, f := range packed[0].Files {
		files = append(files, f.Path)
	}
	for _, name := range []string{"LICENSE", "README.md", "index.d.ts", "index.js", "lib/worker.js", "types/worker.d.ts"} {
		if !slices.Contains(files, name) {
			t.Errorf("the package lacks %s: %v", name, files)
		}
	}
	if slices.Contains(files, "test/fake.js") {
		t.Errorf("the package has the tests: %v", files)
	}
}

// typedClasses returns the classes in the types of the library for Node: those of the files that index.d.ts names.
func typedClasses(t *testing.T, dir string) (typed []string) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(dir, "index.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(index)) {
		name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "export * from './"), ".js';")
		types, err := os.ReadFile(filepath.Join(dir, name+".d.ts"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(types)) {
			if rest, found := strings.CutPrefix(line, "export class "); found {
				typed = append(typed, strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '<' })[0])
			}
		}
	}
	return typed
}
