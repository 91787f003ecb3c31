// Package lua is the state machine: one script, one transition. The scripts' headers are their signatures (KEYS, ARGV,
// REPLY, and why each may be sent twice); docs/STATES.md shows how they move a job. This package only embeds them.
package lua

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// inPrelude are the files of the prelude, in their order.
var inPrelude = []string{"prelude", "lines", "lines_write"}

// Prelude stands in front of every script.
var Prelude = func() (text string) {
	for _, name := range inPrelude {
		text += Source(name)
	}
	return text
}()

// Names are the scripts' names, sorted: those of their files without .lua. The three files of the prelude are none of
// them.
var Names = func() (names []string) {
	found, err := fs.Glob(files, "*.lua")
	if err != nil {
		panic(err)
	}
	for _, file := range found {
		if name := strings.TrimSuffix(file, ".lua"); !slices.Contains(inPrelude, name) {
			names = append(names, name)
		}
	}
	return names
}()

// Source is a script as its file has it. It panics if there is no such file.
func Source(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Script is a script as Redis is sent it: behind the prelude. It panics if there is none of this name.
func Script(name string) string { return Prelude + Source(name) }
