package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// unknownCommand finds the first word of a command line that is not a command. Its error suggests similar
// commands, or lists all of them. cobra alone would show the help of the command before that word, and exit with
// 0.
func (p program) unknownCommand(args []string) (of *cobra.Command, err error) {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return nil, nil // a shell requests completions
	}
	root := p.root()
	root.InitDefaultHelpCmd()
	cmd, rest, _ := root.Find(args) // its error is about the same word
	if cmd.Name() == "help" {
		cmd, rest, _ = root.Find(rest)
	}
	if !cmd.HasSubCommands() {
		return nil, nil
	}
	cmd.InitDefaultHelpFlag()
	_ = cmd.ParseFlags(rest) // the words before an unknown flag are read anyway
	words := cmd.Flags().Args()
	if len(words) == 0 {
		return nil, nil
	}
	return cmd, fmt.Errorf("unknown command %q of %s: %s", words[0], cmd.CommandPath(), meant(cmd, words[0]))
}

// otherWords are the names that other programs use for a command.
var otherWords = map[string][]string{
	"tierq submit":        {"add", "create", "enqueue", "push", "run"},
	"tierq poll":          {"status", "get", "result", "wait"},
	"tierq watch":         {"follow", "tail"},
	"tierq serve":         {"server", "start", "run", "up"},
	"tierq jobs":          {"list", "ls"},
	"tierq changes":       {"audit", "log"},
	"tierq jobs show":     {"get", "describe"},
	"tierq jobs cancel":   {"delete", "rm", "stop", "kill"},
	"tierq jobs artifact": {"download", "file"},
	"tierq dead requeue":  {"retry", "resubmit"},
	"tierq dead show":     {"get"},
	"tierq tiers get":     {"list", "ls", "show"},
	"tierq tiers create":  {"add", "new"},
	"tierq tiers set":     {"update", "edit", "change"},
	"tierq keys create":   {"add", "new"},
	"tierq keys revoke":   {"delete", "remove", "rm"},
}

// meant returns the commands that are similar to a word, or else all commands.
func meant(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(word)
	var all []string
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		all = append(all, sub.Name())
		if slices.Contains(otherWords[sub.CommandPath()], word) {
			near = append(near, sub.Name())
		}
	}
	slices.Sort(all)
	slices.Sort(near)
	near = slices.Compact(near)
	for i := range near {
		near[i] = cmd.CommandPath() + " " + near[i]
	}
	if len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return "its commands are " + strings.Join(all, ", ")
}
