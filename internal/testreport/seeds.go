package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// groups holds the number of rows in each group of the five seed documents: S0-E1 to S0-E6, and so on. T-1 to T-10
// are the seeds' promises about their tests.
var groups = []struct {
	name string
	rows int
}{
	{"S0-E", 6}, {"S0-S", 7}, {"S0-N", 7}, {"S0-T", 1}, {"S0-P", 13},
	{"S1-E", 7}, {"S1-S", 5}, {"S1-N", 4}, {"S1-T", 2}, {"S1-P", 11},
	{"S2-E", 7}, {"S2-W", 6}, {"S2-S", 8}, {"S2-N", 16}, {"S2-K", 6}, {"S2-T", 2}, {"S2-C", 3}, {"S2-P", 20}, {"S2-G", 10},
	{"S3-S", 13}, {"S3-Q", 6}, {"S3-I", 18},
	{"S4-E", 7}, {"S4-W", 1}, {"S4-S", 4}, {"S4-T", 4}, {"S4-M", 6}, {"S4-N", 10}, {"S4-P", 9}, {"S4-O", 3}, {"S4-D", 2},
	{"T-", 10},
}

// later maps the only rows that may wait for a future issue to that issue's number.
var later = map[string]int{"S2-W1": 7, "S2-W2": 7, "S2-W3": 7, "S2-W4": 7, "S2-W5": 7, "S4-W1": 7}

var (
	rowStart  = regexp.MustCompile(`^\|\s*((?:S[0-9]+|T)-[^\s|]*)\s*\|`)
	invariant = regexp.MustCompile(`^(S[0-9]{1,2}|L1)$`)
	laterText = regexp.MustCompile(`^later: issue ([0-9]+) (?:—|-) \S`)
)

// ids returns the ids of all rows of all seeds, in order.
func ids() []string {
	var list []string
	for _, g := range groups {
		for n := range g.rows {
			list = append(list, fmt.Sprint(g.name, n+1))
		}
	}
	return list
}

// checkSeeds checks the tables of docs/proof/SEEDS.md, rows "| S2-E1 | what | here | TestName |", against a run.
// The last cell names the tests that prove the row, separated by commas. A test proves a row if it passed and has
// t.Attr("proves", "S2-E1"); a subtest may have the row's id in its own part of the name instead. Where later
// allows it the cell is "later: issue 7 — reason" instead.
func checkSeeds(table string, ran proofs) []string {
	var list []string
	all := ids()
	seen := map[string]bool{}
	for line := range strings.Lines(table) {
		start := rowStart.FindStringSubmatch(line)
		if start == nil {
			continue
		}
		id := start[1]
		switch {
		case !slices.Contains(all, id):
			list = append(list, id+" is no row of a seed")
		case seen[id]:
			list = append(list, id+" is in "+seedsFile+" twice")
		default:
			list = append(list, checkRow(id, line, ran)...)
		}
		seen[id] = true
	}
	for _, id := range all {
		if !seen[id] {
			list = append(list, id+" is not in "+seedsFile)
		}
	}
	return list
}

func checkRow(id, line string, ran proofs) []string {
	cells := cellsOf(line)
	if len(cells) != 4 {
		return []string{fmt.Sprintf("%s: the row has %d cells, not four: row, what, here, proof", id, len(cells))}
	}
	if cells[1] == "" || cells[2] == "" {
		return []string{id + ": say what the seed promises and what does it here"}
	}
	if strings.HasPrefix(cells[3], "later") {
		if problem := checkLater(id, cells[3]); problem != "" {
			return []string{id + ": " + problem}
		}
		return nil
	}
	return checkTests(id, cells[3], ran)
}

// checkTests returns the problems of the comma-separated tests that a row names as its proof.
func checkTests(id, tests string, ran proofs) []string {
	var list []string
	for name := range strings.SplitSeq(tests, ",") {
		name = strings.Trim(strings.TrimSpace(name), "`")
		test, found := ran[name]
		switch {
		case !isTest(name):
			list = append(list, fmt.Sprintf("%s: %q is no test's name", id, name))
		case !found:
			list = append(list, id+": "+name+" did not run")
		case !proves(name, test.rows, id):
			list = append(list, id+": "+name+" does not say that it proves it")
		case test.outcome != pass:
			list = append(list, id+": "+name+" did not pass")
		}
	}
	return list
}

// checkLater returns the problem of a row that names a future issue; "" if there is none.
func checkLater(id, reason string) string {
	issue, allowed := later[id]
	if !allowed {
		return "this row is not for later: name the test that proves it"
	}
	if said := laterText.FindStringSubmatch(reason); said == nil || said[1] != fmt.Sprint(issue) {
		return fmt.Sprintf("write %q", fmt.Sprintf("later: issue %d — reason", issue))
	}
	return ""
}

// isTest reports whether a name may be that of a test or subtest.
func isTest(name string) bool {
	named := func(kind string) bool { return strings.HasPrefix(name, kind) }
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Example"}, named) && !strings.ContainsAny(name, " \t")
}

// proves reports whether a test proves a row. The row is among the test's own, or a subtest's part of the name
// contains the id as S2-E1 or S2_E1. A longer id (S2-E10) or a word that ends in T-1 does not count.
func proves(name string, rows []string, id string) bool {
	if slices.Contains(rows, id) {
		return true
	}
	_, name, _ = strings.Cut(name, "/")
	for _, form := range []string{id, strings.Replace(id, "-", "_", 1)} {
		before, after, found := strings.Cut(name, form)
		for found {
			if !strings.ContainsAny(last(before), letters+digits) && !strings.ContainsAny(first(after), digits) {
				return true
			}
			before, after, found = strings.Cut(after, form)
		}
	}
	return false
}

// unknownRows returns the rows that tests prove and that do not exist. The rows of the invariants, S1 to S21 and
// L1, are in the checker of internal/chaos.
func unknownRows(ran proofs) []string {
	known := slices.Concat(ids(), faultIDs(), attackIDs())
	var list []string
	for name, test := range ran {
		if strings.Contains(name, "/") {
			continue // a subtest has its parent's rows
		}
		for _, id := range test.rows {
			if !slices.Contains(known, id) && !invariant.MatchString(id) {
				list = append(list, name+" proves "+id+", which is no row")
			}
		}
	}
	slices.Sort(list)
	return list
}

func first(s string) string { return s[:min(1, len(s))] }
func last(s string) string  { return s[max(0, len(s)-1):] }

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// cellsOf returns the cells of a table's row.
func cellsOf(line string) []string {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
