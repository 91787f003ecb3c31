package main

import (
	"fmt"
	"regexp"
	"strings"
)

// groups is how many rows each group of the seed has: S2-E1 to S2-E7, and so on.
var groups = []struct {
	name string
	rows int
}{{"E", 7}, {"W", 6}, {"S", 8}, {"N", 16}, {"K", 6}, {"T", 2}, {"C", 3}, {"P", 20}, {"G", 10}}

var (
	rowStart  = regexp.MustCompile(`^\|\s*(S2-[^\s|]*)\s*\|`)
	laterCell = regexp.MustCompile(`^later: issue [0-9]+ (—|-) \S`)
	testName  = regexp.MustCompile(`^(Test|Fuzz|Example)[^\s|]*$`)
)

// checkSeeds holds the table of docs/SEEDS.md, rows "| S2-E1 | what | TestName |", to a run. The last cell names the tests
// that prove the row, with commas between them, or says "later: issue 3 — reason". A test that proves a row carries the
// row's id in its name, ran, and passed.
func checkSeeds(table string, outcomes map[string]string) []string {
	var list []string
	seen := map[string]bool{}
	expected := map[string]bool{}
	for _, g := range groups {
		for n := range g.rows {
			expected[fmt.Sprintf("S2-%s%d", g.name, n+1)] = true
		}
	}
	for line := range strings.Lines(table) {
		start := rowStart.FindStringSubmatch(line)
		if start == nil {
			continue
		}
		id := start[1]
		switch {
		case !expected[id]:
			list = append(list, id+" is no row of the seed")
		case seen[id]:
			list = append(list, id+" is in "+seedsFile+" twice")
		default:
			list = append(list, checkRow(id, line, outcomes)...)
		}
		seen[id] = true
	}
	for _, g := range groups {
		for n := range g.rows {
			if id := fmt.Sprintf("S2-%s%d", g.name, n+1); !seen[id] {
				list = append(list, id+" is not in "+seedsFile)
			}
		}
	}
	return list
}

func checkRow(id, line string, outcomes map[string]string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	if len(cells) < 3 {
		return []string{id + ": the row needs three cells: id, what, test"}
	}
	proof := strings.TrimSpace(cells[len(cells)-1])
	if strings.HasPrefix(proof, "later") {
		if !laterCell.MatchString(proof) {
			return []string{id + ": write \"later: issue 3 — reason\""}
		}
		return nil
	}
	var list []string
	for name := range strings.SplitSeq(proof, ",") {
		name = strings.Trim(strings.TrimSpace(name), "`")
		outcome, ran := outcomes[name]
		switch {
		case !testName.MatchString(name):
			list = append(list, fmt.Sprintf("%s: %q is no test's name", id, name))
		case !carries(name, id):
			list = append(list, id+": the name of "+name+" does not carry the id")
		case !ran:
			list = append(list, id+": "+name+" did not run")
		case outcome != pass:
			list = append(list, id+": "+name+" did not pass")
		}
	}
	return list
}

// carries reports whether a test's name has the id in it, as S2-E1 or S2_E1, and not as the beginning of S2-E10.
func carries(name, id string) bool {
	group, number, _ := strings.Cut(id, "-")
	return regexp.MustCompile(group + "[-_]" + number + `([^0-9]|$)`).MatchString(name)
}
