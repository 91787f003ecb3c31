package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// proving is the name of a test that proves every row of the seeds, faults and attacks.
const proving = "TestAll"

func everyRow() []string { return slices.Concat(ids(), faultIDs(), attackIDs()) }

// ended returns the proof of a test with this outcome and these rows.
func ended(outcome string, rows ...string) proof { return proof{outcome, rows} }

// table returns a correct docs/proof/SEEDS.md, except for the given rows: id -> the whole line, "" = left out.
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

// listPage returns a correct page of entries, except for the given ones: id -> the whole entry, "" = left out.
func listPage(label string, ids []string, change map[string]string) string {
	var b strings.Builder
	b.WriteString("# Title\n\n## Section\n\n")
	for _, id := range ids {
		text, changed := change[id]
		if !changed {
			text = entryOf(label, id, proving)
		}
		if text != "" {
			b.WriteString(text + "\n")
		}
	}
	return b.String() + "\nText behind the list.\n"
}

func entryOf(label, id, proof string) string {
	return "- **" + id + "**: something\n  - somewhere\n  - " + label + ": " + proof
}

func row(id, proof string) string { return "| " + id + " | something | somewhere | " + proof + " |" }

func TestSeeds(t *testing.T) {
	outcomes := proofs{
		"TestSubmit": ended(pass, "S2-E1"), "TestSubmit/S2-E2": ended(pass), "TestTen": ended(pass, "S2-E10"),
		"TestTen/S2-E10": ended(pass), "TestBoth": ended(pass, "S2-E3", "S2-E4"), "TestDrain": ended(pass, "T-2"),
		"TestBad": ended(fail, "S2-E5"), "TestSkipped": ended(skip, "S2-E5"), "TestLeft": ended(running, "S2-E5"),
		"TestMute": ended(
			pass,
		), "TestTwo": ended(pass, "S2-E3"), "TestRows/S0_T1": ended(pass), "TestLAST/LAST_1": ended(pass),
		"TestMany": ended(pass, "S2-P14"), "TestNamed_S2_E1": ended(pass), proving: ended(pass, everyRow()...),
	}
	for name, tc := range map[string]struct {
		id, proof string
		want      string // "" = no problem
	}{
		"proven":             {"S2-E1", "TestSubmit", ""},
		"by a subtest":       {"S2-E2", "`TestSubmit/S2-E2`", ""},
		"two ids":            {"S2-E4", "TestBoth", ""},
		"two tests":          {"S2-E3", "TestBoth, `TestTwo`", ""},
		"a promise of tests": {"T-2", "TestDrain", ""},
		"another id alike":   {"T-1", "TestRows/S0_T1", "T-1: TestRows/S0_T1 does not say that it proves it"},
		"the end of a word":  {"T-1", "TestLAST/LAST_1", "T-1: TestLAST/LAST_1 does not say that it proves it"},
		"did not run":        {"S2-E6", "TestGone", "S2-E6: TestGone did not run"},
		"second did not":     {"S2-E3", "TestTwo, TestGone", "S2-E3: TestGone did not run"},
		"failed":             {"S2-E5", "TestBad", "S2-E5: TestBad did not pass"},
		"skipped":            {"S2-E5", "TestSkipped", "S2-E5: TestSkipped did not pass"},
		"unfinished":         {"S2-E5", "TestLeft", "S2-E5: TestLeft did not pass"},
		"without the id":     {"S2-E1", "TestMute", "S2-E1: TestMute does not say that it proves it"},
		"only by its name":   {"S2-E1", "TestNamed_S2_E1", "S2-E1: TestNamed_S2_E1 does not say that it proves it"},
		"a longer id":        {"S2-E1", "TestTen", "S2-E1: TestTen does not say that it proves it"},
		"a longer name":      {"S2-E1", "TestTen/S2-E10", "S2-E1: TestTen/S2-E10 does not say that it proves it"},
		"no name":            {"S2-E1", "by hand", `S2-E1: "by hand" is no test's name`},
		"empty":              {"S2-E1", "", `S2-E1: "" is no test's name`},
		"later":              {"S2-W1", "later: issue 7 — the face", ""},
		"later, a hyphen":    {"S2-W1", "later: issue 7 - the face", ""},
		"later, but when":    {"S2-W1", "later — why", `S2-W1: write "later: issue 7 — reason"`},
		"later, but why":     {"S2-W1", "later: issue 7 —", `S2-W1: write "later: issue 7 — reason"`},
		"another issue":      {"S2-W1", "later: issue 5 — why", `S2-W1: write "later: issue 7 — reason"`},
		"not for later": {"S2-E1", "later: issue 5 — why",
			"S2-E1: this row is not for later: name the test that proves it"},
		"all of it": {"S2-P14", "TestMany", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, checkSeeds(table(map[string]string{tc.id: row(tc.id, tc.proof)}), outcomes), tc.want)
		})
	}
	for name, tc := range map[string]struct{ id, line, want string }{
		"as it should be": {"", "", ""},
		"close together":  {"S2-E1", "|S2-E1|x|y|TestSubmit|", ""},
		"three cells": {"S2-E1", "| S2-E1 | x | TestSubmit |",
			"S2-E1: the row has 3 cells, not four: row, what, here, proof"},
		"five cells": {"S2-E1", "| S2-E1 | x | y | z | TestSubmit |",
			"S2-E1: the row has 5 cells, not four: row, what, here, proof"},
		"not said what": {"S2-E1", "| S2-E1 | | y | TestSubmit |",
			"S2-E1: say what the seed promises and what does it here"},
		"not said where": {"S2-E1", "| S2-E1 | x | | TestSubmit |",
			"S2-E1: say what the seed promises and what does it here"},
		"missing":        {"S2-G10", "", "S2-G10 is not in docs/proof/SEEDS.md"},
		"missing, tests": {"T-10", "", "T-10 is not in docs/proof/SEEDS.md"},
		"twice": {"S4-D2", row("S4-D2", proving) + "\n" + row("S4-D2", proving),
			"S4-D2 is in docs/proof/SEEDS.md twice"},
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

// The five documents have 224 rows. Ten more rows are their promises about their tests.
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

// docs/proof/SEEDS.md, docs/proof/FAULTS.md and docs/proof/ATTACKS.md name only existing tests that declare the
// rows. This test shows errors in the pages before a whole run has ended.
func TestPages(t *testing.T) {
	tests, err := declared("../..", "_test.go")
	if err != nil || len(tests) < 500 {
		t.Fatalf("%d tests, %v", len(tests), err)
	}
	long, err := declared("../..", "_long_test.go")
	if err != nil || len(long) == 0 || tests["TestPages"] == nil || long["TestPages"] != nil {
		t.Fatalf("long tests %v, %v", long, err)
	}
	faults := func(table string, ran proofs) []string {
		return checkFaults(table, ran, longSuite{tests: long, running: true})
	}
	for file, check := range map[string]func(string, proofs) []string{
		seedsFile: checkSeeds, faultsFile: faults, attacksFile: checkAttacks,
	} {
		page, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		ran := proofs{}
		for name := range strings.FieldsFuncSeq(string(page),
			func(r rune) bool { return strings.ContainsRune("|,; \n`", r) }) {
			if base, sub, _ := strings.Cut(name, "/"); tests[base] != nil {
				ran[name] = ended(pass, tests[base]...) // only the run knows the subtests, and their own attributes
				if sub != "" {
					ran[name] = ended(pass, everyRow()...)
				}
			}
		}
		for _, problem := range check(string(page), ran) {
			t.Error(strings.Replace(problem, "did not run", "is no test", 1))
		}
	}
}

// A test name that ran in two packages proves its rows only if it passed in both.
func TestOutcomesOverPackages(t *testing.T) {
	for _, order := range [][]string{{pass, fail}, {fail, pass}} {
		r := newRun(nil)
		r.tests[key{"a", "TestX"}] = &result{outcome: order[0]}
		r.tests[key{"b", "TestX"}] = &result{outcome: order[1]}
		if got := r.proofs()["TestX"]; got.outcome != fail {
			t.Errorf("%v: %v", order, got)
		}
	}
}

// An attribute in go test's output gives its rows to the test, to its subtests, and to the test of the same name
// in another package.
func TestAttributes(t *testing.T) {
	r := newRun(io.Discard)
	r.read(strings.NewReader(stream("start p\nrun p TestX\nproves p TestX S2-E1 F03\nrun p TestX/one\npass p TestX/one\n" +
		"pass p TestX\npass p\nstart q\nrun q TestX\nproves q TestX A01\npass q TestX\npass q")))
	ran := r.proofs()
	for name, want := range map[string][]string{"TestX": {"A01", "F03", "S2-E1"}, "TestX/one": {"F03", "S2-E1"}} {
		if got := slices.Sorted(slices.Values(ran[name].rows)); !slices.Equal(got, want) || ran[name].outcome != pass {
			t.Errorf("%s: %v, want %v", name, ran[name], want)
		}
	}
}

func TestUnknownRows(t *testing.T) {
	wants(t, unknownRows(proofs{"TestX": ended(pass, "S2-E1", "F03", "A01", "T-10", "S13", "L1")}), "")
	wants(
		t,
		unknownRows(proofs{"TestX": ended(pass, "S2-E99"), "TestX/y": ended(pass, "S2-E99")}),
		"TestX proves S2-E99, which is no row",
	)
}
