package fuzz

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A64: all corpora are regression tests. Texts that broke a parser are seeds of its target. A text that the fuzzer
// left below testdata/fuzz runs only if its target exists, so every such folder must have a target of its name.
func TestCorporaBelongToTargets(t *testing.T) {
	t.Attr("proves", "A64")
	root := filepath.Join("..", "..")
	targets, err := Targets(root)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, target := range targets {
		folder := filepath.Join(target.Dir, "testdata", "fuzz", target.Name)
		if known[folder] {
			t.Errorf("%s is there twice in %s", target.Name, target.Dir)
		}
		known[folder] = true
	}
	if len(targets) < 30 {
		t.Errorf("only %d targets were found", len(targets))
	}
	kept, err := corpora(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range kept {
		if !known[folder] {
			t.Errorf("%s belongs to no fuzz target", folder)
		}
	}
	deep := t.TempDir()
	want := filepath.Join(deep, "a", "b", "c", "testdata", "fuzz", "FuzzX")
	if err := os.MkdirAll(want, 0o700); err != nil {
		t.Fatal(err)
	}
	if found, err := corpora(deep); err != nil || !slices.Equal(found, []string{want}) {
		t.Errorf("%q, %v", found, err)
	}
}

// corpora returns the folders <package>/testdata/fuzz/<target>, at any depth.
func corpora(root string) (all []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		above := filepath.Dir(path)
		if filepath.Base(above) == "fuzz" && filepath.Base(filepath.Dir(above)) == "testdata" {
			all = append(all, path)
		}
		return nil
	})
	return all, err
}

// Mutations reach every byte and every kind of change.
func TestMutate_ReachesEverything(t *testing.T) {
	m := &mutator{seeds: []string{"left", "right"}, rand: rand.New(rand.NewPCG(1, 2))}
	var bytes [256]bool
	met := map[string]bool{}
	for range 200_000 {
		text := m.mutate("left")
		if len(text) > most {
			t.Fatalf("%d bytes", len(text))
		}
		for i := range len(text) {
			bytes[text[i]] = true
		}
		for _, want := range []string{"leftright", "le", "leftleft", `l"eft`, "l\x00eft", "leght"} {
			if text == want {
				met[want] = true
			}
		}
	}
	for b, seen := range bytes {
		if !seen {
			t.Errorf("no mutation has the byte %#x", b)
		}
	}
	if len(met) < 5 {
		t.Errorf("only %v were met", met)
	}
}

// Plain go test calls a target with its seeds and with mutations of them.
func FuzzText(f *testing.F) {
	texts := map[string]bool{}
	Text(f, func(_ *testing.T, text string) { texts[text] = true }, "a", "b")
	if !native() && (!texts["a"] || !texts["b"] || len(texts) < 100) {
		f.Errorf("%d texts", len(texts))
	}
}

func TestRead_TheFuzzersWords(t *testing.T) {
	const said = `fuzz: elapsed: 0s, gathering baseline coverage: 0/9 completed
fuzz: elapsed: 3s, execs: 171045 (57000/sec), new interesting: 2 (total: 11)
fuzz: elapsed: 4s, execs: 180000 (57000/sec), new interesting: 3 (total: 12)
--- FAIL: FuzzX (4.05s)
    --- FAIL: FuzzX (0.00s)
        x_test.go:9: broken
    Failing input written to testdata/fuzz/FuzzX/7af0e1
    To re-run:
FAIL
FAIL	example.org/x	4.1s
`
	var r Result
	last, late := r.read(strings.NewReader(said), new(strings.Builder))
	if late || r.Executions != 180000 || r.New != 3 || len(r.Crashes) != 1 ||
		r.Crashes[0] != "testdata/fuzz/FuzzX/7af0e1" || last != "To re-run:" {
		t.Errorf("%+v, %q", r, last)
	}
	if _, late := new(Result).read(strings.NewReader("--- FAIL: FuzzX (9.03s)\n    "+starved+"\nFAIL\n"),
		new(strings.Builder)); !late {
		t.Error("a fuzzer that was starved passes for one that found something")
	}
}
