package fuzz

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// Target is one fuzz target.
type Target struct {
	Name string // FuzzSubmitBody
	Dir  string // the folder of its package, below the root that was searched
}

// Targets returns every fuzz target below root that go test would find, in the order of the folders.
func Targets(root string) (all []Target, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, name := filepath.Split(path)
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if ours, err := build.Default.MatchFile(dir, name); !ours || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		names, err := targetsIn(path)
		for _, n := range names {
			all = append(all, Target{Name: n, Dir: filepath.Clean(dir)})
		}
		return err
	})
	return all, err
}

// targetsIn returns the functions of a file that go test takes for fuzz targets.
func targetsIn(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("look for fuzz targets: %w", err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && len(f.Type.Params.List) == 1 {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}
