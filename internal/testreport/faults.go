package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// faults is the number of rows in docs/proof/FAULTS.md: F01 to F62.
const faults = 62

var notRun = regexp.MustCompile(`^not run: \S`)

func faultIDs() []string {
	var list []string
	for n := range faults {
		list = append(list, fmt.Sprintf("F%02d", n+1))
	}
	return list
}

// checkFaults checks the lists of docs/proof/FAULTS.md against a run, as checkSeeds does: an entry has the fault, what
// happens, and "Proof: TestName". A fault that cannot be run here has "not run: reason" instead, and one that can be
// run in part "TestName; not run: reason". "TestName (long)" belongs to the long suite.
func checkFaults(page string, ran proofs, s longSuite) []string {
	var list []string
	all := faultIDs()
	seen := map[string]bool{}
	for _, e := range entriesOf(page, "Proof") {
		id := e.id
		switch {
		case !slices.Contains(all, id):
			list = append(list, id+" is no fault")
		case seen[id]:
			list = append(list, id+" is in "+faultsFile+" twice")
		default:
			list = append(list, checkFault(&e, ran, s)...)
		}
		seen[id] = true
	}
	for _, id := range all {
		if !seen[id] {
			list = append(list, id+" is not in "+faultsFile)
		}
	}
	return list
}

func checkFault(e *entry, ran proofs, s longSuite) []string {
	id := e.id
	if e.what == "" || len(e.does) == 0 {
		return []string{id + ": say what breaks and what happens then"}
	}
	if !e.proven {
		return []string{id + `: the point "Proof: TestName" is missing`}
	}
	tests, reason, parted := strings.Cut(e.proof, ";")
	if strings.HasPrefix(tests, "not run") {
		tests, reason = "", e.proof
	}
	if (parted || tests == "") && !notRun.MatchString(strings.TrimSpace(reason)) {
		return []string{id + `: write "TestName", "not run: reason", or both with a semicolon between them`}
	}
	if tests == "" {
		return nil
	}
	held, problems := s.held(id, tests)
	if len(held) > 0 {
		problems = append(problems, checkTests(id, strings.Join(held, ","), ran)...)
	}
	return problems
}
