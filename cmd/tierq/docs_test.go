package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/CLI.md matches the commands: each command has a section with all its flags, and no section or flag is
// superfluous.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{} // command -> its text
	for _, part := range regexp.MustCompile(`(?m)^##+ `).Split(string(text), -1)[1:] {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	everywhere := sections["For every command"]
	root := program{stdout: io.Discard, stderr: io.Discard}.root()
	root.InitDefaultCompletionCmd()
	global := map[string]bool{}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		global["--"+f.Name] = true
		if !strings.Contains(everywhere, "`--"+f.Name+"`") {
			t.Errorf("--%s is not described for every command", f.Name)
		}
	})
	known := []string{"First steps", "A session", "For every command"}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "help" || cmd.Name() == "completion" {
				continue
			}
			known = append(known, sub.CommandPath())
			if sections[sub.CommandPath()] == "" {
				t.Errorf("%s has no section", sub.CommandPath())
			}
			if sub.Name() != "serve" { // SETTINGS.md has those, checked by its own test
				compareFlags(t, sub, sections[sub.CommandPath()], global)
			}
			walk(sub)
		}
	}
	walk(root)
	for title := range sections {
		if !slices.Contains(known, title) {
			t.Errorf("there is no %q", title)
		}
	}
	if len(known) < 20 {
		t.Errorf("only %d commands: %q", len(known), known)
	}
}

var flagName = regexp.MustCompile(`--[a-z][a-z0-9-]*`)

func compareFlags(t *testing.T, cmd *cobra.Command, section string, global map[string]bool) {
	t.Helper()
	own := map[string]bool{}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { own["--"+f.Name] = f.Name != "help" })
	named := flagName.FindAllString(section, -1)
	for name, listed := range own {
		if listed && !slices.Contains(named, name) {
			t.Errorf("%s: %s is not described", cmd.CommandPath(), name)
		}
	}
	if cmd.HasSubCommands() { // its section introduces the flags of its subcommands
		return
	}
	for _, name := range named {
		if !own[name] && !global[name] && name != "--help" {
			t.Errorf("%s: there is no %s", cmd.CommandPath(), name)
		}
	}
}

// Every example in the help parses: its commands and flags exist.
func TestExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	root := program{stdout: io.Discard, stderr: io.Discard}.root()
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		lines = append(lines, strings.Split(cmd.Example, "\n")...)
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(root)
	n := 0
	for _, line := range lines {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " |")
		args, ok := strings.CutPrefix(line, "tierq ")
		if !ok || strings.HasPrefix(args, "serve &") {
			continue
		}
		n++
		args, _, _ = strings.Cut(args, " #")
		cmd, rest, err := program{stdout: io.Discard, stderr: io.Discard}.root().Find(split(args))
		if err != nil || !cmd.HasParent() || cmd.HasSubCommands() {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n < 40 {
		t.Errorf("only %d examples", n)
	}
}
