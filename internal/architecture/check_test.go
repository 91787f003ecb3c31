package architecture

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/tierq/tierq/"

// imports parses one file and returns its imports. src is that of go/parser: nil = read the file.
func imports(file string, src any) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, nil
}

// check returns the problems of a file's imports; nil if there are none. file is its path in the repository.
func check(file string, imported []string) []string {
	at, ok := roomOf(path.Dir(file))
	if !ok {
		return []string{file + ": its folder has no row in the import table"}
	}
	var list []string
	for _, name := range imported {
		if why := at.refuses(path.Base(file), name); why != "" {
			list = append(list, fmt.Sprintf("%s imports %s: %s", file, strings.TrimPrefix(name, module), why))
		}
	}
	return list
}

// refuses returns the reason why a file of the room must not import name; "" if it may.
func (r room) refuses(file, name string) string {
	test := strings.HasSuffix(file, "_test.go")
	if ours, ok := strings.CutPrefix(name, module); ok {
		to, ok := roomOf(ours)
		switch {
		case !ok:
			return "it has no row in the import table"
		case to.dir == r.dir:
			return ""
		case to.testOnly && !test && !r.testOnly:
			return "it is for tests only"
		case to.testOnly && test, slices.Contains(r.rooms, to.dir), test && slices.Contains(r.inTests, to.dir):
			return ""
		}
		return fmt.Sprintf("of our rooms, %s may import only %q", r.dir, r.rooms)
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		if r.std == nil || test || slices.Contains(r.std, name) {
			return ""
		}
		return fmt.Sprintf("of the standard library, %s may import only %q", r.dir, r.std)
	}
	if within(r.libs, name) || within(r.inFile[file], name) ||
		test && (within(r.inTests, name) || within(testLibs, name)) {
		return ""
	}
	return fmt.Sprintf("of libraries, %s may import only %q", r.dir, r.libs)
}

// roomOf returns the row of a folder: its own, or that of the nearest folder above.
func roomOf(dir string) (room, bool) {
	for ; dir != "."; dir = path.Dir(dir) {
		for _, r := range table {
			if r.dir == dir {
				return r, true
			}
		}
	}
	return room{}, false
}

// within reports whether a package is one of the libraries or below one.
func within(libs []string, name string) bool {
	return slices.ContainsFunc(libs, func(lib string) bool { return name == lib || strings.HasPrefix(name, lib+"/") })
}
