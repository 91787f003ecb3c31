package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json: about a test, a package (Test is empty) or a build (ImportPath is set).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Key, Value  string // of an attribute: t.Attr("proves", "S2-E1 F03")
	Elapsed     float64
	FailedBuild string
}

type key struct{ pkg, test string }

// The outcomes of a test. A test that still runs when its package ends has failed.
const (
	running = ""
	pass    = "pass"
	fail    = "fail"
	skip    = "skip"
	red     = "known-red" // passed, shows a known defect, and proves nothing
)

type result struct {
	outcome  string
	parent   bool     // has subtests: it counts only if it failed by itself
	badChild bool     // a subtest failed, which counts instead
	rows     []string // that it proves according to itself
	redWhy   string   // of a known-red test: the defect
	output   strings.Builder
}

// run is the state of a run of go test, as far as its events have been read.
type run struct {
	out      io.Writer
	tests    map[key]*result
	order    []key
	packages map[string]*strings.Builder // build output of compilers and vet
	builds   map[string]*strings.Builder // output of compilers and vet
	bad      []string                    // failed packages without a failed test
	broken   []string                    // lines that are not events
}

func newRun(out io.Writer) *run {
	return &run{out: out, tests: map[key]*result{}, packages: map[string]*strings.Builder{},
		builds: map[string]*strings.Builder{}}
}

func (r *run) read(in io.Reader) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var e event
			if jsonErr := json.Unmarshal([]byte(line), &e); jsonErr != nil || e.Action == "" {
				r.broken = append(r.broken, strings.TrimSpace(line))
			} else {
				r.take(e)
			}
		}
		if err != nil {
			if err != io.EOF {
				r.broken = append(r.broken, err.Error())
			}
			break
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(r.packages)) { // packages that never ended, because go test itself died
		r.packageFailed(event{Package: pkg})
	}
}

func (r *run) take(e event) {
	switch {
	case e.Action == "build-output":
		text(r.builds, e.ImportPath).WriteString(e.Output)
	case e.ImportPath != "":
	case e.Test != "":
		r.takeTest(e)
	case e.Action == "start":
		text(r.packages, e.Package)
	case e.Action == "output":
		text(r.packages, e.Package).WriteString(e.Output)
	case e.Action == fail:
		r.packageFailed(e)
	case e.Action == pass || e.Action == skip: // skip means a package without tests
		if e.Action == pass {
			fmt.Fprintf(r.out, "ok    %s %.1fs\n", e.Package, e.Elapsed)
		}
		delete(r.packages, e.Package)
	}
}

func text(of map[string]*strings.Builder, name string) *strings.Builder {
	if of[name] == nil {
		of[name] = &strings.Builder{}
	}
	return of[name]
}

func (r *run) takeTest(e event) {
	k := key{e.Package, e.Test}
	t := r.tests[k]
	if t == nil {
		t = &result{}
		r.tests[k] = t
		r.order = append(r.order, k)
		if p := r.tests[parentOf(k)]; p != nil {
			p.parent = true
		}
	}
	switch e.Action {
	case "attr":
		switch e.Key {
		case "proves":
			t.rows = append(t.rows, strings.Fields(e.Value)...)
		case "known-red":
			t.redWhy = e.Value
		}
	case "output":
		t.output.WriteString(e.Output)
	case fail:
		r.testFailed(k, "failed")
	case pass, skip:
		if t.outcome != fail { // with -count above 1 a test ends several times: its failure counts once
			t.outcome = e.Action
		}
		if t.outcome == pass && t.redWhy != "" {
			t.outcome = red
		}
		t.output.Reset()
	}
}

func parentOf(k key) key {
	i := strings.LastIndexByte(k.test, '/')
	return key{k.pkg, k.test[:max(i, 0)]}
}

// testFailed marks a test as failed, marks its parents, and prints the test's output.
func (r *run) testFailed(k key, how string) {
	t := r.tests[k]
	t.outcome = fail
	for p := parentOf(k); p.test != ""; p = parentOf(p) {
		if r.tests[p] != nil {
			r.tests[p].badChild = true
		}
	}
	said := withoutFrame(t.output.String())
	if said != "" || !t.badChild {
		fmt.Fprintf(r.out, "\n--- %s %s: %s\n%s", k.pkg, k.test, how, said)
	}
	t.output.Reset()
}

// packageFailed prints a failed package: one line with its failed tests, then the output outside of its tests.
func (r *run) packageFailed(e event) {
	said := withoutFrame(text(r.packages, e.Package).String())
	delete(r.packages, e.Package)
	var failed []string
	for i := len(r.order) - 1; i >= 0; i-- { // subtests first
		k := r.order[i]
		if k.pkg != e.Package {
			continue
		}
		t := r.tests[k]
		if t.outcome == running && e.FailedBuild == "" {
			r.testFailed(k, "did not finish")
		}
		if t.outcome == fail && !t.badChild {
			failed = append(failed, k.test)
		}
	}
	slices.Reverse(failed)
	fmt.Fprintf(r.out, "FAIL  %s %.1fs %s\n%s", e.Package, e.Elapsed, strings.Join(failed, " "), said)
	switch {
	case e.FailedBuild != "":
		fmt.Fprint(r.out, text(r.builds, e.FailedBuild).String())
		r.bad = append(r.bad, e.Package+" was not built")
	case len(failed) == 0:
		r.bad = append(r.bad, e.Package+" failed outside of its tests")
	}
}

// withoutFrame drops the lines that go test adds to a test's own output.
func withoutFrame(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		words := strings.TrimSpace(line)
		if words == "PASS" || words == "FAIL" || strings.HasPrefix(words, "FAIL\t") || strings.HasPrefix(words, "=== ") ||
			strings.HasPrefix(words, "--- ") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}
