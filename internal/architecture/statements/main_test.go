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
		"a.go": {`package a // nothing

import "os"

// F is said twice.
func F(x int) int {
	var y = 1 // y
	if x > 1 {
		return y
	}
	return len(os.Args)
}
`, 5},
		"b.go": {`package b

type T struct {
	A, B int
	C    string
}

type I interface{ M() }

const (
	X = 1
	Y = 2
)
`, 7},
		"a.lua": {`-- a remark
local function f(x)
  if x then return 1 end
  return 2
end
for i = 1, 3 do f(i) end
local g = function() return 3 end
`, 8},
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

// The count of this checkout has each of the core's rooms.
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
