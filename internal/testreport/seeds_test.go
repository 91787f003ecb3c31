package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// proving is a test's name that carries the id of every row, of the seeds, of the faults and of the attacks.
var proving = "TestAll_" + strings.Join(slices.Concat(ids(), faultIDs(), attackIDs()), "_")

// table is a correct docs/SEEDS.md, but for the rows given: id -> the whole line, "" = left out.
func table(change map[string]string) string { return page("# Seeds", ids(), change) }

func page(title string, ids []string, change map[string]string) string {
	var b strings.Builder
	b.WriteString(title + "\n\n| row | what | here | proof |\n|---|---|---|---|\n")
	for _, id := range ids {
		line, changed := change[id]
		if !changed {
			line = row(id, proving)
		}
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func row(id, proof string) string { return "| " + id + " | something | somewhere | " + proof + " |" }

func TestSeeds(t *testing.T) {
	outcomes := map[string]string{
		"TestSubmit_S2_E1": pass, "TestSubmit/S2-E2": pass, "TestSubmit_S2_E10": pass, "TestBoth_S2_E3_S2_E4": pass, "TestDrain_T_2": pass,
		"TestBad_S2_E5": fail, "TestSkipped_S2_E5": skip, "TestLeft_S2_E5": running, "TestNameless": pass, "TestTwo_S2_E3": pass,
		"TestRows_S0_T1": pass, "TestMany_S2_P14": pass, proving: pass,
	}
	for name, tc := range map[string]struct {
		id, proof string
		want      string // "" = no problem
	}{
		"proven":             {"S2-E1", "TestSubmit_S2_E1", ""},
		"by a subtest":       {"S2-E2", "`TestSubmit/S2-E2`", ""},
		"two ids":            {"S2-E4", "TestBoth_S2_E3_S2_E4", ""},
		"two tests":          {"S2-E3", "TestBoth_S2_E3_S2_E4, `TestTwo_S2_E3`", ""},
		"a promise of tests": {"T-2", "TestDrain_T_2", ""},
		"another id alike":   {"T-1", "TestRows_S0_T1", "T-1: the name of TestRows_S0_T1 does not carry the id"},
		"the end of a word":  {"T-1", "TestLAST_1", "T-1: the name of TestLAST_1 does not carry the id"},
		"did not run":        {"S2-E6", "TestGone_S2_E6", "S2-E6: TestGone_S2_E6 did not run"},
		"second did not":     {"S2-E3", "TestTwo_S2_E3, TestGone_S2_E3", "S2-E3: TestGone_S2_E3 did not run"},
		"failed":             {"S2-E5", "TestBad_S2_E5", "S2-E5: TestBad_S2_E5 did not pass"},
		"skipped":            {"S2-E5", "TestSkipped_S2_E5", "S2-E5: TestSkipped_S2_E5 did not pass"},
		"unfinished":         {"S2-E5", "TestLeft_S2_E5", "S2-E5: TestLeft_S2_E5 did not pass"},
		"without the id":     {"S2-E1", "TestNameless", "S2-E1: the name of TestNameless does not carry the id"},
		"a longer id":        {"S2-E1", "TestSubmit_S2_E10", "S2-E1: the name of TestSubmit_S2_E10 does not carry the id"},
		"no name":            {"S2-E1", "by hand", `S2-E1: "by hand" is no test's name`},
		"empty":              {"S2-E1", "", `S2-E1: "" is no test's name`},
		"later":              {"S2-W1", "later: issue 7 — the face", ""},
		"later, a hyphen":    {"S2-W1", "later: issue 7 - the face", ""},
		"later, but when":    {"S2-W1", "later — why", `S2-W1: write "later: issue 7 — reason"`},
		"later, but why":     {"S2-W1", "later: issue 7 —", `S2-W1: write "later: issue 7 — reason"`},
		"another issue":      {"S2-W1", "later: issue 5 — why", `S2-W1: write "later: issue 7 — reason"`},
		"not for later":      {"S2-E1", "later: issue 5 — why", "S2-E1: this row is not for later: name the test that proves it"},
		"all of it":          {"S2-P14", "TestMany_S2_P14", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, checkSeeds(table(map[string]string{tc.id: row(tc.id, tc.proof)}), outcomes), tc.want)
		})
	}
	for name, tc := range map[string]struct{ id, line, want string }{
		"as it should be": {"", "", ""},
		"close together":  {"S2-E1", "|S2-E1|x|y|TestSubmit_S2_E1|", ""},
		"three cells":     {"S2-E1", "| S2-E1 | x | TestSubmit_S2_E1 |", "S2-E1: the row has 3 cells, not four: row, what, here, proof"},
		"five cells":      {"S2-E1", "| S2-E1 | x | y | z | TestSubmit_S2_E1 |", "S2-E1: the row has 5 cells, not four: row, what, here, proof"},
		"not said what":   {"S2-E1", "| S2-E1 | | y | TestSubmit_S2_E1 |", "S2-E1: say what the seed promises and what does it here"},
		"not said where":  {"S2-E1", "| S2-E1 | x | | TestSubmit_S2_E1 |", "S2-E1: say what the seed promises and what does it here"},
		"missing":         {"S2-G10", "", "S2-G10 is not in docs/SEEDS.md"},
		"missing, tests":  {"T-10", "", "T-10 is not in docs/SEEDS.md"},
		"twice":           {"S4-D2", row("S4-D2", proving) + "\n" + row("S4-D2", proving), "S4-D2 is in docs/SEEDS.md twice"},
		"unknown":         {"S2-K6", row("S2-K6", proving) + "\n" + row("S2-K7", proving), "S2-K7 is no row of a seed"},
		"unknown seed":    {"S2-K6", row("S2-K6", proving) + "\n" + row("S5-E1", proving), "S5-E1 is no row of a seed"},
		"unknown promise": {"S2-K6", row("S2-K6", proving) + "\n" + row("T-11", proving), "T-11 is no row of a seed"},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, checkSeeds(table(map[string]string{tc.id: tc.line}), outcomes), tc.want)
		})
	}
}

func wants(t *testing.T, got []string, want string) {
	t.Helper()
	if strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The five documents have 224 rows; ten more are what they promise of their tests.
func TestSeedsAreAllAskedFor(t *testing.T) {
	per := map[string]int{}
	for _, problem := range checkSeeds("", nil) {
		seed, _, _ := strings.Cut(problem, "-")
		per[seed]++
	}
	want := map[string]int{"S0": 34, "S1": 29, "S2": 78, "S3": 37, "S4": 46, "T": 10}
	if !maps.Equal(per, want) {
		t.Errorf("an empty table lacks %v rows, want %v", per, want)
	}
	if all := ids(); len(all) != 224+10 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
		t.Errorf("%d rows, want 224 and 10, each once", len(all))
	}
	for id := range later {
		if !slices.Contains(ids(), id) {
			t.Errorf("%s is for later, and no row", id)
		}
	}
}

// docs/SEEDS.md and docs/FAULTS.md themselves, held to the tests there are: what is wrong in them shows here before everything has run.
func TestPages(t *testing.T) {
	tests, err := declared("../..", "_test.go")
	if err != nil || len(tests) < 500 {
		t.Fatalf("%d tests, %v", len(tests), err)
	}
	long, err := declared("../..", "_long_test.go")
	if err != nil || len(long) == 0 || !tests["TestPages"] || long["TestPages"] {
		t.Fatalf("long tests %v, %v", long, err)
	}
	faults := func(table string, outcomes map[string]string) []string {
		return checkFaults(table, outcomes, longSuite{tests: long, running: true})
	}
	for file, check := range map[string]func(string, map[string]string) []string{seedsFile: checkSeeds, faultsFile: faults} {
		page, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		outcomes := map[string]string{}
		for name := range strings.FieldsFuncSeq(string(page), func(r rune) bool { return strings.ContainsRune("|,; \n`", r) }) {
			if base, _, _ := strings.Cut(name, "/"); tests[base] {
				outcomes[name] = pass // whether a subtest ran, only the run knows
			}
		}
		for _, problem := range check(string(page), outcomes) {
			t.Error(strings.Replace(problem, "did not run", "is no test", 1))
		}
	}
}

// A name that ran in two packages is proven only if it passed in both.
func TestOutcomesOverPackages(t *testing.T) {
	for _, order := range [][]string{{pass, fail}, {fail, pass}} {
		r := newRun(nil)
		r.tests[key{"a", "TestX"}] = &result{outcome: order[0]}
		r.tests[key{"b", "TestX"}] = &result{outcome: order[1]}
		if got := r.outcomes()["TestX"]; got != fail {
			t.Errorf("%v: %s", order, got)
		}
	}
}
