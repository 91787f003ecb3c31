package main

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	outcomes := map[string]string{
		"TestSubmit_S2_E1": pass, "TestSubmit/S2-E2": pass, "TestSubmit_S2_E10": pass, "TestBoth_S2_E3_S2_E4": pass,
		"TestBad_S2_E5": fail, "TestSkipped_S2_E5": skip, "TestLeft_S2_E5": running, "TestNameless": pass, "TestTwo_S2_E3": pass,
	}
	for name, tc := range map[string]struct {
		change map[string]string
		want   []string
	}{
		"all later":       {nil, nil},
		"a hyphen":        {map[string]string{"S2-E1": "| S2-E1 | x | later: issue 12 - why |"}, nil},
		"proven":          {map[string]string{"S2-E1": "| S2-E1 | x | TestSubmit_S2_E1 |"}, nil},
		"by a subtest":    {map[string]string{"S2-E2": "|S2-E2|x|`TestSubmit/S2-E2`|"}, nil},
		"more columns":    {map[string]string{"S2-E1": "| S2-E1 | x | y | TestSubmit_S2_E1 |"}, nil},
		"two ids":         {map[string]string{"S2-E3": "| S2-E3 | x | TestBoth_S2_E3_S2_E4 |", "S2-E4": "| S2-E4 | x | TestBoth_S2_E3_S2_E4 |"}, nil},
		"two tests":       {map[string]string{"S2-E3": "| S2-E3 | x | TestBoth_S2_E3_S2_E4, `TestTwo_S2_E3` |"}, nil},
		"did not run":     {map[string]string{"S2-E6": "| S2-E6 | x | TestGone_S2_E6 |"}, []string{"S2-E6: TestGone_S2_E6 did not run"}},
		"second did not":  {map[string]string{"S2-E3": "| S2-E3 | x | TestTwo_S2_E3, TestGone_S2_E3 |"}, []string{"S2-E3: TestGone_S2_E3 did not run"}},
		"failed":          {map[string]string{"S2-E5": "| S2-E5 | x | TestBad_S2_E5 |"}, []string{"S2-E5: TestBad_S2_E5 did not pass"}},
		"skipped":         {map[string]string{"S2-E5": "| S2-E5 | x | TestSkipped_S2_E5 |"}, []string{"S2-E5: TestSkipped_S2_E5 did not pass"}},
		"unfinished":      {map[string]string{"S2-E5": "| S2-E5 | x | TestLeft_S2_E5 |"}, []string{"S2-E5: TestLeft_S2_E5 did not pass"}},
		"without the id":  {map[string]string{"S2-E1": "| S2-E1 | x | TestNameless |"}, []string{"S2-E1: the name of TestNameless does not carry the id"}},
		"a longer id":     {map[string]string{"S2-E1": "| S2-E1 | x | TestSubmit_S2_E10 |"}, []string{"S2-E1: the name of TestSubmit_S2_E10 does not carry the id"}},
		"no name":         {map[string]string{"S2-E1": "| S2-E1 | x | by hand |"}, []string{`S2-E1: "by hand" is no test's name`}},
		"empty":           {map[string]string{"S2-E1": "| S2-E1 | x |  |"}, []string{`S2-E1: "" is no test's name`}},
		"two cells":       {map[string]string{"S2-E1": "| S2-E1 | x |"}, []string{"S2-E1: the row needs three cells: id, what, test"}},
		"later, but when": {map[string]string{"S2-E1": "| S2-E1 | x | later — why |"}, []string{`S2-E1: write "later: issue 3 — reason"`}},
		"later, but why":  {map[string]string{"S2-E1": "| S2-E1 | x | later: issue 3 |"}, []string{`S2-E1: write "later: issue 3 — reason"`}},
		"missing":         {map[string]string{"S2-G10": ""}, []string{"S2-G10 is not in docs/SEEDS.md"}},
		"twice": {map[string]string{"S2-E1": "| S2-E1 | x | later: issue 3 — y |\n| S2-E1 | x | later: issue 3 — y |"},
			[]string{"S2-E1 is in docs/SEEDS.md twice"}},
		"unknown": {map[string]string{"S2-K6": "| S2-K6 | x | later: issue 3 — y |\n| S2-K7 | x | later: issue 3 — y |"},
			[]string{"S2-K7 is no row of the seed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := checkSeeds(table(tc.change), outcomes); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSeedsAreAllAskedFor(t *testing.T) {
	if got := checkSeeds("", nil); len(got) != 78 {
		t.Errorf("an empty table lacks %d rows, want 78", len(got))
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
