// Command testreport reads "go test -json" on its standard input and says what the run was worth: the output of what failed,
// the number of tests per backend, and whether every row of docs/SEEDS.md that names a test was proven in this very run.
//
// It fails where go test would not: a skipped test, a backend without tests, a seed without its proof. The last line is
// "N passed, M failed"; M counts failed tests and failed checks, so it is 0 exactly when the exit code is 0.
//
// TESTREPORT_SEEDS=off, for a run of some packages only, leaves out the checks of backends and seeds, and says so.
package main

import (
	"fmt"
	"io"
	"os"
)

const seedsFile = "docs/SEEDS.md"

func main() {
	var seeds *string
	if os.Getenv("TESTREPORT_SEEDS") != "off" {
		text, err := os.ReadFile(seedsFile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
		}
		table := string(text) // a missing file is a table without rows: every id is then missing
		seeds = &table
	}
	os.Exit(report(os.Stdin, os.Stdout, seeds))
}

// report returns the exit code. seeds is the text of docs/SEEDS.md; nil = a partial run.
func report(in io.Reader, out io.Writer, seeds *string) int {
	r := newRun(out)
	r.read(in)

	problems := r.problems()
	backends := r.perBackend()
	if seeds != nil {
		problems = append(problems, missingBackends(backends)...)
		problems = append(problems, checkSeeds(*seeds, r.outcomes())...)
	}

	passed, failed := r.count()
	fmt.Fprintln(out)
	printBackends(out, backends, passed+failed)
	for _, p := range problems {
		fmt.Fprintln(out, "FAIL:", p)
	}
	if seeds == nil {
		fmt.Fprintln(out, "A partial run: backends and seeds were not checked.")
	}
	failed += len(problems)
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return 1
	}
	return 0
}
