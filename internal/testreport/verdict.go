package main

import (
	"fmt"
	"io"
	"strings"
)

// backends are the stores that every run must have tested. A test runs on one if its name has it as a part: /redis.
var backends = []string{"miniredis", "redis", "sqlite", "mariadb"}

// count counts leaves: a test with subtests counts only if it failed by itself.
func (r *run) count() (passed, failed int) {
	for _, t := range r.tests {
		switch {
		case t.outcome == pass && !t.parent:
			passed++
		case t.outcome == fail && !t.badChild:
			failed++
		}
	}
	return passed, failed
}

// problems is what is wrong with the run besides the tests that failed.
func (r *run) problems() []string {
	list := append([]string(nil), r.bad...)
	for _, k := range r.order {
		if r.tests[k].outcome == skip {
			list = append(list, k.pkg+" "+k.test+" was skipped")
		}
	}
	for _, line := range r.broken {
		list = append(list, fmt.Sprintf("not a line of go test -json: %q", line))
	}
	if len(r.tests) == 0 {
		list = append(list, "no test ran")
	}
	return list
}

// perBackend counts the leaves that ran on each backend.
func (r *run) perBackend() map[string]int {
	counts := map[string]int{}
	for k, t := range r.tests {
		if t.parent || t.outcome == skip {
			continue
		}
		parts := map[string]bool{}
		for part := range strings.SplitSeq(k.test, "/") {
			name, _, _ := strings.Cut(part, "#") // a second subtest of the same name is called name#01
			parts[name] = true
		}
		for _, b := range backends {
			if parts[b] {
				counts[b]++
			}
		}
	}
	return counts
}

func missingBackends(counts map[string]int) []string {
	var list []string
	for _, b := range backends {
		if counts[b] == 0 {
			list = append(list, "no test ran on "+b)
		}
	}
	return list
}

func printBackends(out io.Writer, counts map[string]int, total int) {
	fmt.Fprintf(out, "%-20s %6s\n", "tests run on", "")
	for _, b := range backends {
		fmt.Fprintf(out, "  %-18s %6d\n", b, counts[b])
	}
	fmt.Fprintf(out, "%-20s %6d\n", "tests run in all", total)
}

// outcomes is what the seeds ask for: by test name, over all packages, "pass" only if it passed wherever it ran.
func (r *run) outcomes() map[string]string {
	all := map[string]string{}
	for k, t := range r.tests {
		if before, seen := all[k.test]; seen && before != pass {
			continue
		}
		all[k.test] = t.outcome
	}
	return all
}
