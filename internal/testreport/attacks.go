package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// attacks is the number of rows in docs/proof/ATTACKS.md: A01 to A64.
const attacks = 64

var (
	attackStart = regexp.MustCompile(`^\|\s*(A[0-9]+)\s*\|`)
	comesLater  = regexp.MustCompile(`^later: \S`)
)

// attackedLater are the only rows that may wait in part for a feature that does not exist yet: cron and the pages.
var attackedLater = []string{"A22", "A44", "A45", "A46"}

func attackIDs() []string {
	var list []string
	for n := range attacks {
		list = append(list, fmt.Sprintf("A%02d", n+1))
	}
	return list
}

// checkAttacks checks the table of docs/proof/ATTACKS.md, rows "| A01 | attack | what the server does | TestName
// |", against a run, as checkSeeds does. Every row names tests; where attackedLater allows it, "; later: reason"
// may follow.
func checkAttacks(table string, ran proofs) []string {
	var list []string
	all := attackIDs()
	seen := map[string]bool{}
	for line := range strings.Lines(table) {
		start := attackStart.FindStringSubmatch(line)
		if start == nil {
			continue
		}
		id := start[1]
		switch {
		case !slices.Contains(all, id):
			list = append(list, id+" is no attack")
		case seen[id]:
			list = append(list, id+" is in "+attacksFile+" twice")
		default:
			list = append(list, checkAttack(id, line, ran)...)
		}
		seen[id] = true
	}
	for _, id := range all {
		if !seen[id] {
			list = append(list, id+" is not in "+attacksFile)
		}
	}
	return list
}

func checkAttack(id, line string, ran proofs) []string {
	cells := cellsOf(line)
	if len(cells) != 4 {
		return []string{fmt.Sprintf("%s: the row has %d cells, not four: id, attack, what the server does, tests", id,
			len(cells))}
	}
	if cells[1] == "" || cells[2] == "" {
		return []string{id + ": say what is tried and what the server does then"}
	}
	tests, reason, parted := strings.Cut(cells[3], ";")
	switch {
	case parted && !slices.Contains(attackedLater, id):
		return []string{id + ": this row is not for later: name the tests that try it"}
	case parted && !comesLater.MatchString(strings.TrimSpace(reason)):
		return []string{id + `: write "TestName; later: reason"`}
	}
	return checkTests(id, tests, ran)
}

// cellsOf returns the cells of a table's row.
func cellsOf(line string) []string {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
