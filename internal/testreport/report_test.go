package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// stream returns the output of go test -json for a short form: "start p", "pass p TestX", "output p TestX text",
// "fail p", "proves p TestX S2-E1 F03", "known-red p TestX why", one per line.
func stream(short string) string {
	var b strings.Builder
	for line := range strings.Lines(short) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		e := map[string]string{"Action": words[0], "Package": words[1]}
		if len(words) > 2 && words[2] != "-" {
			e["Test"] = words[2]
		}
		if words[0] == "proves" || words[0] == "known-red" {
			e["Action"], e["Key"], e["Value"] = "attr", words[0], strings.Join(words[3:], " ")
		} else if len(words) > 3 {
			e["Output"] = strings.Join(words[3:], " ") + "\n"
		}
		text, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// everyBackend is a complete run: each backend is tested, and each row of the seeds, faults and attacks is proven.
var everyBackend = "start s\nrun s " + proving + "\nproves s " + proving + " " + strings.Join(
	everyRow(),
	" ",
) + "\npass s " + proving + "\npass s" + `
start q
run q TestQ
run q TestQ/miniredis
pass q TestQ/miniredis
run q TestQ/redis
run q TestQ/redis/deep
pass q TestQ/redis/deep
pass q TestQ/redis
pass q TestQ
pass q
start a
run a TestA
run a TestA/sqlite#01
pass a TestA/sqlite#01
run a TestA/mariadb
pass a TestA/mariadb
pass a TestA
run a TestRediscovery
pass a TestRediscovery
pass a
`

// runReport returns the exit code, all output, and its last line. With nil seeds the run is a partial one.
func runReport(in string, seeds *string) (code int, all, last string) {
	var out strings.Builder
	var p *pages
	if seeds != nil {
		p = &pages{seeds: *seeds, faults: faultTable(nil), attacks: attackTable(nil)}
	}
	code = report(strings.NewReader(in), &out, p)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	return code, out.String(), lines[len(lines)-1]
}

func TestAllIsWell(t *testing.T) {
	seeds := table(nil)
	code, all, last := runReport(stream(everyBackend), &seeds)
	if code != 0 || last != "6 passed, 0 failed" {
		t.Errorf("code %d, last line %q\n%s", code, last, all)
	}
	for _, line := range []string{"miniredis 1", "redis 1", "sqlite 1", "mariadb 1", "in all 6", "ok q 0.0s"} {
		if !strings.Contains(strings.Join(strings.Fields(all), " "), line) {
			t.Errorf("no %q in\n%s", line, all)
		}
	}
}

func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		in      string // appended to everyBackend
		want    []string
		without string
		last    string
	}{
		"a test": {
			in: "start b\nrun b TestB\noutput b TestB === RUN TestB\noutput b TestB b_test.go: boo\n" +
				"fail b TestB\noutput b - FAIL\nfail b",
			want:    []string{"--- b TestB: failed\nb_test.go: boo\nFAIL  b 0.0s TestB\n"},
			without: "=== RUN", last: "6 passed, 1 failed",
		},
		"a subtest counts once": {
			in: "start b\nrun b TestB\nrun b TestB/x\noutput b TestB/x boo\nfail b TestB/x\noutput b TestB --- FAIL: TestB\n" +
				"fail b TestB\n" +
				"run b TestC\npass b TestC\nfail b",
			want:    []string{"--- b TestB/x: failed\nboo\n", "FAIL  b 0.0s TestB/x\n"},
			without: "TestB: failed", last: "7 passed, 1 failed",
		},
		"a parent by itself": {
			in:   "start b\nrun b TestB\nrun b TestB/x\npass b TestB/x\noutput b TestB outer\nfail b TestB\nfail b",
			want: []string{"--- b TestB: failed\nouter"}, last: "7 passed, 1 failed",
		},
		"a passing test is silent": {
			in:   "start b\nrun b TestB\noutput b TestB chatter\npass b TestB\nrun b TestC\nfail b TestC\nfail b",
			want: []string{"--- b TestC: failed"}, without: "chatter", last: "7 passed, 1 failed",
		},
		"failed once of twice": {
			in:   "start b\nrun b TestB\nfail b TestB\nrun b TestB\npass b TestB\nfail b",
			want: []string{"--- b TestB: failed"}, last: "6 passed, 1 failed",
		},
		"did not finish": {
			in:   "start b\nrun b TestB\nrun b TestB/x\noutput b TestB/x busy\noutput b - panic: test timed out\nfail b",
			want: []string{"TestB/x: did not finish\nbusy", "FAIL  b 0.0s TestB/x\npanic: test timed out"},
			last: "6 passed, 1 failed",
		},
		"outside of tests": {
			in:   "start b\nrun b TestB\npass b TestB\noutput b - found a leak\nfail b",
			want: []string{"found a leak", "FAIL: b failed outside of its tests"}, last: "7 passed, 1 failed",
		},
		"go test died": {
			in:   "start b\nrun b TestB\npass b TestB\nstart c\nrun c TestC",
			want: []string{"FAIL: b failed outside of its tests", "--- c TestC: did not finish"},
			last: "7 passed, 2 failed",
		},
		"skipped": {
			in:   "start b\nrun b TestB\noutput b TestB no redis\nskip b TestB\npass b",
			want: []string{"FAIL: b TestB was skipped"}, last: "6 passed, 1 failed",
		},
		"a skipped subtest": {
			in:   "start b\nrun b TestB\nrun b TestB/redis\nskip b TestB/redis\npass b TestB\npass b",
			want: []string{"FAIL: b TestB/redis was skipped"}, last: "6 passed, 1 failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, seeds := range []*string{nil, new(table(nil))} {
				code, all, last := runReport(stream(everyBackend+tc.in), seeds)
				if code != 1 || last != tc.last {
					t.Errorf("code %d, last line %q, want %q\n%s", code, last, tc.last, all)
				}
				for _, want := range tc.want {
					if !strings.Contains(all, want) {
						t.Errorf("no %q in\n%s", want, all)
					}
				}
				if tc.without != "" && strings.Contains(all, tc.without) {
					t.Errorf("%q in\n%s", tc.without, all)
				}
			}
		})
	}
}

// A known-red test that passes is listed with its reason and does not count as passed. A known-red test that fails
// is a failure like any other.
func TestKnownRed(t *testing.T) {
	in := everyBackend + "start b\nrun b TestB\nrun b TestB/x\nknown-red b TestB/x jobs run twice\noutput b TestB/x boo\n" +
		"pass b TestB/x\npass b TestB\nrun b TestC\nknown-red b TestC mails are lost\n"
	for name, tc := range map[string]struct {
		in         string
		code       int
		want, last string
		without    string
	}{
		"red": {
			in: in + "pass b TestC\npass b", last: "6 passed, 0 failed",
			want: "made an ordinary test:\n  b TestB/x: jobs run twice\n  b TestC: mails are lost\nknown defects             2\n",
		},
		"mended": {
			in: in + "output b TestC no longer red\nfail b TestC\nfail b", code: 1, last: "6 passed, 1 failed",
			want: "ordinary test:\n  b TestB/x: jobs run twice\nknown defects             1\n", without: "mails are lost",
		},
		"red once of twice": {
			in:   in + "fail b TestC\nrun b TestC\nknown-red b TestC mails are lost\npass b TestC\nfail b",
			code: 1, last: "6 passed, 1 failed", want: "known defects             1\n", without: "mails are lost",
		},
		"none": {in: everyBackend, last: "6 passed, 0 failed", without: "nown defects"},
	} {
		t.Run(name, func(t *testing.T) {
			code, all, last := runReport(stream(tc.in), nil)
			if code != tc.code || last != tc.last || !strings.Contains(all, tc.want) {
				t.Errorf("code %d, last line %q, or no %q in\n%s", code, last, tc.want, all)
			}
			if tc.without != "" && strings.Contains(all, tc.without) {
				t.Errorf("%q in\n%s", tc.without, all)
			}
		})
	}
}

// A known-red test proves no row.
func TestKnownRedProvesNothing(t *testing.T) {
	page := faultTable(map[string]string{"F01": entryOf("Proof", "F01", "TestB")})
	in := "start b\nrun b TestB\nproves b TestB F01\nknown-red b TestB mails are lost\npass b TestB\npass b"
	var out strings.Builder
	code := report(
		strings.NewReader(stream(everyBackend+in)), &out,
		&pages{seeds: table(nil), faults: page, attacks: attackTable(nil)},
	)
	if code != 1 || !strings.Contains(out.String(), "FAIL: F01: TestB did not pass\n") {
		t.Errorf("code %d\n%s", code, out.String())
	}
}

func TestBuildFailure(t *testing.T) {
	in := stream(everyBackend) + `{"ImportPath":"b [b.test]","Action":"build-output","Output":"b_test.go:3: undefined: x\n"}
{"ImportPath":"b [b.test]","Action":"build-fail"}
{"Action":"start","Package":"b"}
{"Action":"output","Package":"b","Output":"FAIL\tb [build failed]\n"}
{"Action":"fail","Package":"b","FailedBuild":"b [b.test]"}
`
	code, all, last := runReport(in, nil)
	if code != 1 || last != "6 passed, 1 failed" || !strings.Contains(all, "undefined: x") ||
		!strings.Contains(all, "FAIL: b was not built") {
		t.Errorf("code %d\n%s", code, all)
	}
}

func TestNoEvents(t *testing.T) {
	for in, want := range map[string]string{
		"":                "FAIL: no test ran",
		"go: no module\n": `FAIL: not a line of go test -json: "go: no module"`,
		stream("start p\noutput p - ? p [no test files]\nskip p"): "FAIL: no test ran",
	} {
		code, all, _ := runReport(in, nil)
		if code != 1 || !strings.Contains(all, want) {
			t.Errorf("%q: code %d, no %q in\n%s", in, code, want, all)
		}
	}
}

func TestMissingBackend(t *testing.T) {
	for _, b := range backends {
		var kept strings.Builder
		for line := range strings.Lines(everyBackend) {
			if !strings.Contains(line, "/"+b) {
				kept.WriteString(line)
			}
		}
		code, all, last := runReport(stream(kept.String()), new(table(nil)))
		if code != 1 || !strings.Contains(all, "FAIL: no test ran on "+b+"\n") || !strings.HasSuffix(last, ", 1 failed") {
			t.Errorf("without %s: code %d\n%s", b, code, all)
		}
		if code, all, _ := runReport(stream(kept.String()), nil); code != 0 ||
			!strings.Contains(all, "A partial run: backends, seeds, faults and attacks were not checked.\n") {
			t.Errorf("a partial run without %s: code %d\n%s", b, code, all)
		}
	}
}

// testreport reads real events of go test as well as the handwritten ones above.
func TestRealEvents(t *testing.T) {
	in, err := os.Open("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out strings.Builder
	if code := report(in, &out, nil); code != 1 {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{
		"--- ev/a TestP: failed\npanic: boo", "FAIL: ev/b was not built", "undefined: undefined",
		"--- ev/c TestP: failed\n    c_test.go:4: outer",
		"leak!", "--- ev/d TestP/x: did not finish", "FAIL: ev/e TestS was skipped", "ok    ev/f ", "\n3 passed, 5 failed\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
