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

// shared are the files that stand behind the prelude in front of some scripts: places in front of those that know
// reserved places, room in front of those by which jobs come in.
var shared = map[string][]string{
	"recount": {"places"}, "reserve": {"places", "room"}, "restore": {"places"}, "submit": {"room"},
	"unreserve": {"places"},
}

// notScripts are the files that stand in front of scripts.
var notScripts = append(slices.Clone(inPrelude), "places", "room")

// Names are the scripts' names, sorted: those of their files without .lua. The files that stand in front of scripts are
// none of them.
var Names = func() (names []string) {
	found, err := fs.Glob(files, "*.lua")
	if err != nil {
		panic(err)
	}
	for _, file := range found {
		if name := strings.TrimSuffix(file, ".lua"); !slices.Contains(notScripts, name) {
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

// Own is what a script has behind the prelude: the files that it shares with some others, and its own.
func Own(name string) (text string) {
	for _, file := range append(slices.Clone(shared[name]), name) {
		text += Source(file)
	}
	return text
}

// Script is a script as Redis is sent it: behind the prelude. It panics if there is none of this name.
func Script(name string) string { return Prelude + Own(name) }
