// Command statements counts the statements and declarations in the Go code of cmd/tierq under internal/, and in
// all Lua. It ignores comments, blank lines and tests. It prints a line for each room, the sum of the core's rooms
// and the sum of all. With folders of other checkouts as arguments it counts those, one column each.
package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua/ast"
	luaparse "github.com/yuin/gopher-lua/parse"
)

// core are the rooms that decide over jobs.
var core = []string{
	"lua", "job", "handler", "queue", "archive", "admission", "worker", "recovery", "ledger", "events", "app",
}

func main() {
	folders := os.Args[1:]
	if len(folders) == 0 {
		folders = []string{"."}
	}
	if err := run(os.Stdout, folders); err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folders []string) error {
	counts, rooms := make([]map[string]int, len(folders)), map[string]bool{}
	for i, folder := range folders {
		count, err := statements(folder)
		if err != nil {
			return err
		}
		counts[i] = count
		for room := range count {
			rooms[room] = true
		}
	}
	line := func(name string, of func(count map[string]int) int) {
		fmt.Fprintf(out, "%-12s", name)
		for _, count := range counts {
			fmt.Fprintf(out, " %7d", of(count))
		}
		fmt.Fprintln(out)
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		line(room, func(count map[string]int) int { return count[room] })
	}
	line("the core", func(count map[string]int) (sum int) {
		for _, room := range core {
			sum += count[room]
		}
		return sum
	})
	line("all", func(count map[string]int) (sum int) {
		for _, n := range count {
			sum += n
		}
		return sum
	})
	return nil
}

// statements counts by room: the first part of a path below internal/, or lua.
func statements(folder string) (map[string]int, error) {
	counts := map[string]int{}
	const each = `{{if .Module}}{{if .Module.Main}}{{.Dir}}{{range .GoFiles}} {{.}}{{end}}{{end}}{{end}}`
	list := exec.CommandContext(context.Background(), "go", "list", "-deps", "-f", each, "./cmd/tierq")
	list.Dir, list.Stderr = folder, os.Stderr
	found, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(found)) {
		files := strings.Fields(line)
		_, below, ok := strings.Cut(filepath.ToSlash(files[0]), "/internal/")
		if !ok {
			continue
		}
		room, _, _ := strings.Cut(below, "/")
		for _, file := range files[1:] {
			n, err := ofGo(filepath.Join(files[0], file))
			if err != nil {
				return nil, err
			}
			counts[room] += n
		}
	}
	scripts, err := filepath.Glob(filepath.Join(folder, "lua", "*.lua"))
	if err != nil {
		return nil, err
	}
	for _, file := range scripts {
		n, err := ofLua(file)
		if err != nil {
			return nil, err
		}
		counts["lua"] += n
	}
	return counts, nil
}

// ofGo counts statements, the declared functions, types, variables and constants, and the members of types.
func ofGo(file string) (n int, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BlockStmt, *ast.EmptyStmt, *ast.DeclStmt: // their contents count
		case ast.Stmt, *ast.FuncDecl, *ast.TypeSpec, *ast.ValueSpec:
			n++
		case *ast.StructType:
			n += len(node.Fields.List)
		case *ast.InterfaceType:
			n += len(node.Methods.List)
		}
		return true
	})
	return n, nil
}

func ofLua(file string) (int, error) {
	text, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer text.Close()
	chunk, err := luaparse.Parse(text, file)
	if err != nil {
		return 0, err
	}
	return luaStatements(chunk), nil
}

func luaStatements(block []lua.Stmt) (n int) {
	for _, s := range block {
		n++
		switch s := s.(type) {
		case *lua.DoBlockStmt:
			n += luaStatements(s.Stmts) - 1
		case *lua.WhileStmt:
			n += luaStatements(s.Stmts)
		case *lua.RepeatStmt:
			n += luaStatements(s.Stmts)
		case *lua.IfStmt:
			n += luaStatements(s.Then) + luaStatements(s.Else)
		case *lua.NumberForStmt:
			n += luaStatements(s.Stmts)
		case *lua.GenericForStmt:
			n += luaStatements(s.Stmts)
		case *lua.FuncDefStmt:
			n += luaStatements(s.Func.Stmts)
		case *lua.LocalAssignStmt:
			n += luaFunctions(s.Exprs)
		case *lua.AssignStmt:
			n += luaFunctions(s.Rhs)
		case *lua.ReturnStmt:
			n += luaFunctions(s.Exprs)
		}
	}
	return n
}

// luaFunctions counts the statements in the functions among some values.
func luaFunctions(values []lua.Expr) (n int) {
	for _, v := range values {
		if f, ok := v.(*lua.FunctionExpr); ok {
			n += luaStatements(f.Stmts)
		}
	}
	return n
}
