package main

import "testing"

// A long test must exist in every run, and must have passed in a run of the long suite.
func TestLongTests(t *testing.T) {
	there := map[string][]string{"TestSoak": {"F01"}, "TestApart": {"F01"}}
	outcomes := proofs{"TestKill": ended(pass, "F01"), "TestSoak": ended(pass, "F01"), "TestApart": ended(fail, "F01"),
		proving: ended(pass, everyRow()...)}
	for name, tc := range map[string]struct {
		proof       string
		short, long string // the problem in each kind of run
	}{
		"passed":     {"TestKill, TestSoak (long)", "", ""},
		"by itself":  {"`TestSoak` (long)", "", ""},
		"failed":     {"TestApart (long)", "", "F01: TestApart did not pass"},
		"not marked": {"TestKill, TestApart", "F01: TestApart did not pass", "F01: TestApart did not pass"},
		"a subtest":  {"TestSoak/one (long)", "", "F01: TestSoak/one did not run"},
		"not there": {"TestGone (long)", "F01: TestGone is no test of the long suite",
			"F01: TestGone is no test of the long suite"},
		"no long one": {"TestKill (long)", "F01: TestKill is no test of the long suite",
			"F01: TestKill is no test of the long suite"},
		"and a reason": {"TestSoak (long); not run: the power cut", "", ""},
		"half a reason": {"TestSoak (long); or so",
			`F01: write "TestName", "not run: reason", or both with a semicolon between them`,
			`F01: write "TestName", "not run: reason", or both with a semicolon between them`},
		"another's name": {"TestSoak (longer)", `F01: "TestSoak (longer)" is no test's name`,
			`F01: "TestSoak (longer)" is no test's name`},
	} {
		t.Run(name, func(t *testing.T) {
			page := faultTable(map[string]string{"F01": entryOf("Proof", "F01", tc.proof)})
			wants(t, checkFaults(page, outcomes, longSuite{tests: there}), tc.short)
			wants(t, checkFaults(page, outcomes, longSuite{tests: there, running: true}), tc.long)
		})
	}
	other := faultTable(map[string]string{"F02": entryOf("Proof", "F02", "TestSoak (long)")})
	wants(t, checkFaults(other, outcomes, longSuite{tests: there}), "F02: TestSoak does not say that it proves it")
}
