package main

import (
	"fmt"
	"io"
	"strings"
)

// backends are the stores that every run must have tested. A test counts for a backend whose name is a part of the
// test's name: /redis.
var backends = []string{"miniredis", "redis", "sqlite", "mariadb"}

// count counts tests without subtests; a test with subtests counts only if it failed by itself.
func (r *run) count() (passed, failed, knownRed int) {
	for _, t := range r.tests {
		switch {
		case t.outcome == red:
			knownRed++
		case t.outcome == pass && !t.parent:
			passed++
		case t.outcome == fail && !t.badChild:
			failed++
		}
	}
	return passed, failed, knownRed
}

// printKnownRed lists the known defects, each with the test that shows it.
func (r *run) printKnownRed(out io.Writer, count int) {
	if count == 0 {
		return
	}
	fmt.Fprintln(
		out,
		"Known defects that are not mended yet. The test of each fails as expected, and counts neither as passed nor",
	)
	fmt.Fprintln(out, "as failed; once its defect is mended the run fails until it is made an ordinary test:")
	for _, k := range r.order {
		if t := r.tests[k]; t.outcome == red {
			fmt.Fprintf(out, "  %s %s: %s\n", k.pkg, k.test, t.redWhy)
		}
	}
	fmt.Fprintf(out, "%-20s %6d\n", "known defects", count)
}

// problems returns the problems of the run other than failed tests.
func (r *run) problems() []string {
	list := append([]string(nil), r.bad...)
	for _, k := range r.order {
		if r.tests[k].outcome == skip {
			list = append(list, k.pkg+" "+k.test+" was skipped")
		}
	}
	for _, line := range r.broken {
		list = append(list, fmt.Sprintf("not a line of go test -json: %q", line))
	}
	if len(r.tests) == 0 {
		list = append(list, "no test ran")
	}
	return list
}

// perBackend counts the tests without subtests that ran on each backend.
func (r *run) perBackend() map[string]int {
	counts := map[string]int{}
	for k, t := range r.tests {
		if t.parent || t.outcome == skip {
			continue
		}
		parts := map[string]bool{}
		for part := range strings.SplitSeq(k.test, "/") {
			name, _, _ := strings.Cut(part, "#") // a second subtest of this name is called name#01
			parts[name] = true
		}
		for _, b := range backends {
			if parts[b] {
				counts[b]++
			}
		}
	}
	return counts
}

func missingBackends(counts map[string]int) []string {
	var list []string
	for _, b := range backends {
		if counts[b] == 0 {
			list = append(list, "no test ran on "+b)
		}
	}
	return list
}

func printBackends(out io.Writer, counts map[string]int, total int) {
	fmt.Fprintf(out, "%-20s %6s\n", "tests run on", "")
	for _, b := range backends {
		fmt.Fprintf(out, "  %-18s %6d\n", b, counts[b])
	}
	fmt.Fprintf(out, "%-20s %6d\n", "tests run in all", total)
}

// proof is a test's outcome, and the rows that it proves according to itself.
type proof struct {
	outcome string
	rows    []string
}

// proofs maps the names of all tests of a run to their proofs.
type proofs map[string]proof

// proofs joins the tests of one name over all packages. They passed if each of them passed, and prove the rows of
// all of them. A subtest also proves its parent's rows.
func (r *run) proofs() proofs {
	all := proofs{}
	for k, t := range r.tests {
		p := all[k.test]
		if _, seen := all[k.test]; !seen || p.outcome == pass {
			p.outcome = t.outcome
		}
		p.rows = append(p.rows, t.rows...)
		for around := parentOf(k); around.test != ""; around = parentOf(around) {
			if o := r.tests[around]; o != nil {
				p.rows = append(p.rows, o.rows...)
			}
		}
		all[k.test] = p
	}
	return all
}
