package main

import "testing"

// A long test must be there in every run, and have passed where long tests ran.
func TestLongTests(t *testing.T) {
	there := map[string]bool{"TestSoak_F01": true, "TestApart_F01": true}
	outcomes := map[string]string{"TestKill_F01": pass, "TestSoak_F01": pass, "TestApart_F01": fail, proving: pass}
	for name, tc := range map[string]struct {
		proof       string
		short, long string // what is wrong in each run
	}{
		"passed":         {"TestKill_F01, TestSoak_F01 (long)", "", ""},
		"by itself":      {"`TestSoak_F01` (long)", "", ""},
		"failed":         {"TestApart_F01 (long)", "", "F01: TestApart_F01 did not pass"},
		"not marked":     {"TestKill_F01, TestApart_F01", "F01: TestApart_F01 did not pass", "F01: TestApart_F01 did not pass"},
		"a subtest":      {"TestSoak_F01/one (long)", "", "F01: TestSoak_F01/one did not run"},
		"not there":      {"TestGone_F01 (long)", "F01: TestGone_F01 is no test of the long suite", "F01: TestGone_F01 is no test of the long suite"},
		"no long one":    {"TestKill_F01 (long)", "F01: TestKill_F01 is no test of the long suite", "F01: TestKill_F01 is no test of the long suite"},
		"and a reason":   {"TestSoak_F01 (long); not run: the power cut", "", ""},
		"half a reason":  {"TestSoak_F01 (long); or so", `F01: write "TestName", "not run: reason", or both with a semicolon between them`, `F01: write "TestName", "not run: reason", or both with a semicolon between them`},
		"another's name": {"TestSoak_F01 (longer)", `F01: "TestSoak_F01 (longer)" is no test's name`, `F01: "TestSoak_F01 (longer)" is no test's name`},
	} {
		t.Run(name, func(t *testing.T) {
			page := faultTable(map[string]string{"F01": row("F01", tc.proof)})
			wants(t, checkFaults(page, outcomes, longSuite{tests: there}), tc.short)
			wants(t, checkFaults(page, outcomes, longSuite{tests: there, running: true}), tc.long)
		})
	}
	other := faultTable(map[string]string{"F02": row("F02", "TestSoak_F01 (long)")})
	wants(t, checkFaults(other, outcomes, longSuite{tests: there}), "F02: the name of TestSoak_F01 does not carry the id")
}
