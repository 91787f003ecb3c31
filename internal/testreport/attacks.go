package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// attacks is the number of rows in docs/proof/ATTACKS.md: A01 to A68.
const attacks = 68

var comesLater = regexp.MustCompile(`^later: \S`)

// attackedLater are the only rows that may wait in part for a feature that does not exist yet: cron and the pages.
var attackedLater = []string{"A22", "A44", "A45", "A46"}

func attackIDs() []string {
	var list []string
	for n := range attacks {
		list = append(list, fmt.Sprintf("A%02d", n+1))
	}
	return list
}

// checkAttacks checks the lists of docs/proof/ATTACKS.md against a run, as checkSeeds does: an entry has the attack,
// what the server does, and "Tests: TestName". Every entry names tests; where attackedLater allows it, "; later:
// reason" may follow.
func checkAttacks(page string, ran proofs) []string {
	var list []string
	all := attackIDs()
	seen := map[string]bool{}
	for _, e := range entriesOf(page, "Tests") {
		id := e.id
		switch {
		case !slices.Contains(all, id):
			list = append(list, id+" is no attack")
		case seen[id]:
			list = append(list, id+" is in "+attacksFile+" twice")
		default:
			list = append(list, checkAttack(&e, ran)...)
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

func checkAttack(e *entry, ran proofs) []string {
	id := e.id
	if e.what == "" || len(e.does) == 0 {
		return []string{id + ": say what is tried and what the server does then"}
	}
	if !e.proven {
		return []string{id + `: the point "Tests: TestName" is missing`}
	}
	tests, reason, parted := strings.Cut(e.proof, ";")
	switch {
	case parted && !slices.Contains(attackedLater, id):
		return []string{id + ": this row is not for later: name the tests that try it"}
	case parted && !comesLater.MatchString(strings.TrimSpace(reason)):
		return []string{id + `: write "TestName; later: reason"`}
	}
	return checkTests(id, tests, ran)
}
