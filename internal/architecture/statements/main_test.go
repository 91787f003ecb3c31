package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"a.go":  {"package a // nothing\n\nimport \"os\"\n\n// F is said twice.\nfunc F(x int) int {\n\tvar y = 1 // y\n\tif x > 1 {\n\t\treturn y\n\t}\n\treturn len(os.Args)\n}\n", 5},
		"b.go":  {"package b\n\ntype T struct {\n\tA, B int\n\tC string\n}\n\ntype I interface{ M() }\n\nconst (\n\tX = 1\n\tY = 2\n)\n", 7},
		"a.lua": {"-- a remark\nlocal function f(x)\n  if x then return 1 end\n  return 2\nend\nfor i = 1, 3 do f(i) end\nlocal g = function() return 3 end\n", 8},
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		of := ofGo
		if strings.HasSuffix(name, ".lua") {
			of = ofLua
		}
		if got, err := of(file); got != tc.want || err != nil {
			t.Errorf("%s: %d statements, not %d (%v)", name, got, tc.want, err)
		}
	}
}

// The count of this very tree has each of the core's rooms.
func TestRooms(t *testing.T) {
	t.Parallel()
	counts, err := statements(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range core {
		if counts[room] < 100 {
			t.Errorf("%s: %d statements", room, counts[room])
		}
	}
}
