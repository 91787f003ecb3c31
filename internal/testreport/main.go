// Command testreport reads "go test -json" on its standard input and reports on the run: the output of failures,
// the number of tests per backend, and whether this run proved every row of docs/proof/SEEDS.md,
// docs/proof/FAULTS.md and docs/proof/ATTACKS.md that names a test.
//
// It fails where go test would not: a skipped test, a backend without tests, a seed, a fault or an attack without
// its proof. The last line is "N passed, M failed". M counts failed tests and failed checks, so M is 0 exactly
// when the exit code is 0.
//
// A passing test with t.Attr("known-red", why), as testkit.KnownRed sets it, shows a known defect that is not
// fixed yet. The report lists it with its reason, and counts it neither as passed nor as failed; it proves no row.
//
// TESTREPORT_SEEDS=off, for a run of some packages only, leaves out the checks of backends, seeds, faults and
// attacks; the report says so. TESTREPORT_LONG=on means that the long tests ran too: rows may name them as
// "TestName (long)".
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

// pages holds the texts that name tests, and the long suite.
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

// read returns a file's text. A missing file counts as a table without rows, so that every id is missing.
func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	return string(text)
}

// report returns the exit code. p holds the tables that the run must prove; nil = a partial run.
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
