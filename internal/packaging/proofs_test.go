package packaging

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Makefile's PROOFS are what make test leaves out and make proofs runs. Each of them is one test of a package that
// make proofs runs, and no test elsewhere has its name: such a test would be left out by make test and run nowhere.
func TestProofsAreRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	proofs := strings.Fields(variable(t, text, "PROOFS"))
	proven := append(strings.Fields(variable(t, text, "PROVEN")), "./bench")
	found := map[string][]string{} // packages, by the test
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", "testdata", ".git"}, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil || bytes.HasPrefix(source, []byte("//go:build long")) {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		for _, proof := range proofs {
			if bytes.Contains(source, []byte("\nfunc "+proof+"(")) {
				found[proof] = append(found[proof], "./"+filepath.ToSlash(dir))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range proofs {
		if in := found[proof]; len(in) != 1 || !slices.Contains(proven, in[0]) {
			t.Errorf("%s is a test of %q; want it in one package, of %q", proof, in, proven)
		}
	}
	run, err := os.ReadFile(root + "/.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(run, []byte("\nmake proofs\n")) {
		t.Error(".ci/run leaves out make proofs")
	}
}

// variable returns the value of a variable of the Makefile, on one line.
func variable(t *testing.T, makefile []byte, name string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^` + name + ` := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if lines == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.ReplaceAll(string(lines[1]), "\\\n", " ")
}
