// Command testreport reads "go test -json" on its standard input and says what the run was worth: the output of what
// failed, the number of tests per backend, and whether every row of docs/proof/SEEDS.md, docs/proof/FAULTS.md and
// docs/proof/ATTACKS.md that names a test was proven in this very run.
//
// It fails where go test would not: a skipped test, a backend without tests, a seed, a fault or an attack without its
// proof. The last line is "N passed, M failed"; M counts failed tests and failed checks, so it is 0 exactly when the
// exit code is 0.
//
// A test that says t.Attr("known-red", why), as testkit.KnownRed does, and passes shows a known defect that is not
// mended yet. The report lists it with its reason, and counts it neither as passed nor as failed; it proves no row.
//
// TESTREPORT_SEEDS=off, for a run of some packages only, leaves out the checks of backends, seeds, faults and attacks,
// and says so. TESTREPORT_LONG=on says that the long tests ran too: rows may name them as "TestName (long)".
package main

import (
	"fmt"
	"io"
	"os"
)

const (
	seedsFile   = "docs/proof/SEEDS.md"
	faultsFile  = "docs/proof/FAULTS.md"
	attacksFile = "docs/proof/ATTACKS.md"
)

// pages are the texts that name tests, and the tests that only some runs have.
type pages struct {
	seeds, faults, attacks string
	long                   longSuite
}

func main() {
	var p *pages
	if os.Getenv("TESTREPORT_SEEDS") != "off" {
		p = &pages{seeds: read(seedsFile), faults: read(faultsFile), attacks: read(attacksFile)}
		tests, err := declared(".", "_long_test.go")
		if err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
		}
		p.long = longSuite{tests: tests, running: os.Getenv("TESTREPORT_LONG") == "on"}
	}
	os.Exit(report(os.Stdin, os.Stdout, p))
}

// read gives a missing file as a table without rows: every id is then missing.
func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	return string(text)
}

// report returns the exit code. p is what the run must have proven; nil = a partial run.
func report(in io.Reader, out io.Writer, p *pages) int {
	r := newRun(out)
	r.read(in)

	problems := r.problems()
	backends := r.perBackend()
	ran := r.proofs()
	problems = append(problems, unknownRows(ran)...)
	if p != nil {
		problems = append(problems, missingBackends(backends)...)
		problems = append(problems, checkSeeds(p.seeds, ran)...)
		problems = append(problems, checkFaults(p.faults, ran, p.long)...)
		problems = append(problems, checkAttacks(p.attacks, ran)...)
	}

	passed, failed, knownRed := r.count()
	fmt.Fprintln(out)
	printBackends(out, backends, passed+failed+knownRed)
	r.printKnownRed(out, knownRed)
	for _, problem := range problems {
		fmt.Fprintln(out, "FAIL:", problem)
	}
	if p == nil {
		fmt.Fprintln(out, "A partial run: backends, seeds, faults and attacks were not checked.")
	}
	failed += len(problems)
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return 1
	}
	return 0
}
