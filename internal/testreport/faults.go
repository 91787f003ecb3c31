package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// faults is the number of rows in docs/proof/FAULTS.md: F01 to F62.
const faults = 62

var (
	faultStart = regexp.MustCompile(`^\|\s*(F[0-9]+)\s*\|`)
	notRun     = regexp.MustCompile(`^not run: \S`)
)

func faultIDs() []string {
	var list []string
	for n := range faults {
		list = append(list, fmt.Sprintf("F%02d", n+1))
	}
	return list
}

// checkFaults checks the table of docs/proof/FAULTS.md, rows "| F01 | fault | what happens | TestName |", against
// a run, as checkSeeds does. A fault that cannot be run here has "not run: reason" instead, and one that can be
// run in part "TestName; not run: reason". "TestName (long)" belongs to the long suite.
func checkFaults(table string, ran proofs, s longSuite) []string {
	var list []string
	all := faultIDs()
	seen := map[string]bool{}
	for line := range strings.Lines(table) {
		start := faultStart.FindStringSubmatch(line)
		if start == nil {
			continue
		}
		id := start[1]
		switch {
		case !slices.Contains(all, id):
			list = append(list, id+" is no fault")
		case seen[id]:
			list = append(list, id+" is in "+faultsFile+" twice")
		default:
			list = append(list, checkFault(id, line, ran, s)...)
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

func checkFault(id, line string, ran proofs, s longSuite) []string {
	cells := cellsOf(line)
	if len(cells) != 4 {
		return []string{fmt.Sprintf("%s: the row has %d cells, not four: id, fault, what happens, proof", id, len(cells))}
	}
	if cells[1] == "" || cells[2] == "" {
		return []string{id + ": say what breaks and what happens then"}
	}
	tests, reason, parted := strings.Cut(cells[3], ";")
	if strings.HasPrefix(tests, "not run") {
		tests, reason = "", cells[3]
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
