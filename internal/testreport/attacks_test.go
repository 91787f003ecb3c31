package main

import (
	"strings"
	"testing"
)

// attackTable returns a correct docs/proof/ATTACKS.md, except for the given rows: id -> its whole entry, "" =
// left out.
func attackTable(change map[string]string) string { return listPage("Tests", attackIDs(), change) }

func TestAttackRows(t *testing.T) {
	outcomes := proofs{"TestKeys": ended(pass, "A04"), "TestAttacks/A04": ended(pass), "TestBad": ended(fail, "A20"),
		"TestMute": ended(pass), "TestCron": ended(pass, "A22"), proving: ended(pass, everyRow()...)}
	for name, tc := range map[string]struct{ id, line, want string }{
		"as it should be": {"", "", ""},
		"tried":           {"A04", entryOf("Tests", "A04", "`TestKeys`"), ""},
		"twice":           {"A04", entryOf("Tests", "A04", "TestKeys, TestAttacks/A04"), ""},
		"a part later":    {"A22", entryOf("Tests", "A22", "TestCron; later: with cron"), ""},
		"later, why?":     {"A22", entryOf("Tests", "A22", "TestCron; later:"), `A22: write "TestName; later: reason"`},
		"all of it later": {"A22", entryOf("Tests", "A22", "later: with cron"), `A22: "later: with cron" is no test's name`},
		"not for later": {"A04", entryOf("Tests", "A04", "TestKeys; later: some day"),
			"A04: this row is not for later: name the tests that try it"},
		"nothing":        {"A64", entryOf("Tests", "A64", ""), `A64: "" is no test's name`},
		"failed":         {"A20", entryOf("Tests", "A20", "TestBad"), "A20: TestBad did not pass"},
		"did not run":    {"A20", entryOf("Tests", "A20", "TestGone"), "A20: TestGone did not run"},
		"without the id": {"A20", entryOf("Tests", "A20", "TestMute"), "A20: TestMute does not say that it proves it"},
		"no tests":       {"A20", "- **A20**: x\n  - y", `A20: the point "Tests: TestName" is missing`},
		"not said what": {"A20", "- **A20**:\n  - y\n  - Tests: " + proving,
			"A20: say what is tried and what the server does then"},
		"not said then": {"A20", "- **A20**: x\n  - Tests: " + proving,
			"A20: say what is tried and what the server does then"},
		"lines that go on": {"A20", "- **A20**: x\n  y\n  - z\n    z\n  - Tests: TestKeys,\n    " + proving,
			"A20: TestKeys does not say that it proves it"},
		"missing": {"A64", "", "A64 is not in docs/proof/ATTACKS.md"},
		"there twice": {"A01", entryOf("Tests", "A01", proving) + "\n" + entryOf("Tests", "A01", proving),
			"A01 is in docs/proof/ATTACKS.md twice"},
		"unknown": {"A64", entryOf("Tests", "A64", proving) + "\n" + entryOf("Tests", "A69", proving),
			"A69 is no attack"},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, checkAttacks(attackTable(map[string]string{tc.id: tc.line}), outcomes), tc.want)
		})
	}
	if all := checkAttacks("", nil); len(all) != attacks {
		t.Errorf("an empty table lacks %d rows, want %d", len(all), attacks)
	}
}

// A run without the test of an attack fails, as one without the test of a seed does.
func TestAttacksAreAskedFor(t *testing.T) {
	var out strings.Builder
	p := &pages{seeds: table(nil), faults: faultTable(nil), attacks: attackTable(map[string]string{"A64": ""})}
	if code := report(strings.NewReader(stream(everyBackend)), &out, p); code != 1 ||
		!strings.Contains(out.String(), "FAIL: A64 is not in docs/proof/ATTACKS.md\n") {
		t.Errorf("code %d\n%s", code, out.String())
	}
}
