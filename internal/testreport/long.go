package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// longSuite holds the tests of the long suite, and whether this run includes them.
type longSuite struct {
	tests   map[string][]string // the rows that each test of the files *_long_test.go proves, by its name
	running bool
}

const longMark = " (long)"

// held returns the test names of a row that this run must have proven. A long test, marked by longMark behind its
// name, must exist in every run, and must have run and passed in a long one.
func (s longSuite) held(id, names string) (list []string, problems []string) {
	for name := range strings.SplitSeq(names, ",") {
		name, marked := strings.CutSuffix(strings.TrimSpace(name), longMark)
		base, _, _ := strings.Cut(strings.Trim(name, "`"), "/")
		switch {
		case marked && s.tests[base] == nil:
			problems = append(problems, fmt.Sprintf("%s: %s is no test of the long suite", id, name))
		case marked && !proves(name, s.tests[base], id):
			problems = append(problems, id+": "+name+" does not say that it proves it")
		case !marked || s.running:
			list = append(list, name)
		}
	}
	return list, problems
}

var function = regexp.MustCompile(
	`(?m)^func ((?:Test|Fuzz|Example)\w+)\(.*\n(?:\tt\.Parallel\(\)\n)?(?:\t\w\.Attr\("proves", "([^"]*)"\))?`,
)

// declared returns all tests below a folder in files whose names end with suffix, with the rows that each proves
// according to its first statement; never nil.
func declared(root, suffix string) (map[string][]string, error) {
	names := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root &&
			(d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !strings.HasSuffix(name, suffix):
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range function.FindAllSubmatch(text, -1) {
			rows := append([]string{}, names[string(m[1])]...)
			names[string(m[1])] = append(rows, strings.Fields(string(m[2]))...)
		}
		return err
	})
	return names, err
}
