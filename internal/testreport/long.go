package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// longSuite is what there is of the tests that only make long runs, and whether this run is one.
type longSuite struct {
	tests   map[string][]string // the rows of each, by name, of the files *_long_test.go
	running bool
}

const longMark = " (long)"

// held are the names of a row that this run must have proven. What is behind a name says that it is a long test's: it
// must be there in every run, and have run and passed in a long one.
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

// declared are all tests below a folder in files whose names end so, and the rows that each says it proves, first of
// all; never nil.
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
