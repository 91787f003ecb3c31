package main

import (
	"strings"
	"testing"
)

// faultTable returns a correct docs/proof/FAULTS.md, except for the given rows: id -> its whole entry, "" =
// left out.
func faultTable(change map[string]string) string { return listPage("Proof", faultIDs(), change) }

func TestFaults(t *testing.T) {
	outcomes := proofs{
		"TestKill": ended(pass, "F01"), "TestOutage/F13_frozen": ended(pass), "TestTwo": ended(pass, "F15", "F16"),
		"TestBad": ended(fail, "F20"), "TestMute": ended(pass), proving: ended(pass, everyRow()...),
	}
	const how = `: write "TestName", "not run: reason", or both with a semicolon between them`
	for name, tc := range map[string]struct{ id, line, want string }{
		"as it should be": {"", "", ""},
		"proven":          {"F01", entryOf("Proof", "F01", "`TestKill`"), ""},
		"by a subtest":    {"F13", entryOf("Proof", "F13", "TestOutage/F13_frozen"), ""},
		"two faults":      {"F16", entryOf("Proof", "F16", "TestTwo"), ""},
		"a reason":        {"F62", entryOf("Proof", "F62", "not run: it takes hours; ask for it"), ""},
		"both":            {"F01", entryOf("Proof", "F01", "TestKill; not run: the power cut"), ""},
		"half a reason":   {"F01", entryOf("Proof", "F01", "TestKill; the power cut"), "F01" + how},
		"no reason":       {"F62", entryOf("Proof", "F62", "not run:"), "F62" + how},
		"nothing":         {"F62", entryOf("Proof", "F62", ""), "F62" + how},
		"failed":          {"F20", entryOf("Proof", "F20", "TestBad"), "F20: TestBad did not pass"},
		"did not run":     {"F20", entryOf("Proof", "F20", "TestGone"), "F20: TestGone did not run"},
		"no name":         {"F20", entryOf("Proof", "F20", "by hand"), `F20: "by hand" is no test's name`},
		"without the id":  {"F20", entryOf("Proof", "F20", "TestMute"), "F20: TestMute does not say that it proves it"},
		"no proof":        {"F20", "- **F20**: x\n  - y", `F20: the point "Proof: TestName" is missing`},
		"not said what":   {"F20", "- **F20**:\n  - y\n  - Proof: " + proving, "F20: say what breaks and what happens then"},
		"missing":         {"F62", "", "F62 is not in docs/proof/FAULTS.md"},
		"twice": {"F01", entryOf("Proof", "F01", proving) + "\n" + entryOf("Proof", "F01", proving),
			"F01 is in docs/proof/FAULTS.md twice"},
		"unknown": {"F62", entryOf("Proof", "F62", proving) + "\n" + entryOf("Proof", "F63", proving),
			"F63 is no fault"},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, checkFaults(faultTable(map[string]string{tc.id: tc.line}), outcomes, longSuite{}), tc.want)
		})
	}
	if all := checkFaults("", nil, longSuite{}); len(all) != faults {
		t.Errorf("an empty table lacks %d rows, want %d", len(all), faults)
	}
}

// A run without the proof of a fault fails, as one without the proof of a seed does.
func TestFaultsAreAskedFor(t *testing.T) {
	var out strings.Builder
	code := report(strings.NewReader(stream(everyBackend)), &out,
		&pages{seeds: table(nil), faults: faultTable(map[string]string{"F62": ""}), attacks: attackTable(nil)})
	if code != 1 || !strings.Contains(out.String(), "FAIL: F62 is not in docs/proof/FAULTS.md\n") {
		t.Errorf("code %d\n%s", code, out.String())
	}
}
