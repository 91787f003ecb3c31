package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand visits all commands, including those that cobra adds.
func everyCommand(visit func(*cobra.Command)) {
	root := program{stdout: io.Discard, stderr: io.Discard}.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		visit(cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// The help names what a flag wants (--count n, --file path), never the flag's Go type.
func TestPlaceholdersNameThings(t *testing.T) {
	types := []string{
		"string", "strings", "stringArray", "stringSlice", "stringToString", "int", "ints", "intSlice", "uint", "float",
		"float64", "duration", "durationSlice", "value", "count", "bytesHex", "bytesBase64", "ip", "time.Duration",
	}
	n := 0
	everyCommand(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			n++
			if name, _ := pflag.UnquoteUsage(f); slices.Contains(types, name) || strings.Contains(name, " ") {
				t.Errorf("%s: --%s %s", cmd.CommandPath(), f.Name, name)
			}
		})
	})
	if n < 100 {
		t.Errorf("only %d flags", n)
	}
	f := newFake(t)
	for args, want := range map[string][]string{
		"submit --help":      {"--count n ", "--file path ", "--type type ", "--delay time ", "--max-retries n "},
		"jobs list --help":   {"--tier tier ", "--limit n ", "--status status "},
		"tiers set --help":   {"--priority n ", "--share percent ", "--backoff-factor factor ", "--heartbeat-timeout time "},
		"keys create --help": {"--name name ", "--role role ", "--tier tier ", "--expires time "},
		"serve --help": {
			"--addr host:port ", "--workers n ", "--retention time ", "--payload-limit size ", "--redis-url URL ",
			"--insecure on|off", "--redis-url-file path ",
		},
	} {
		end := f.cli(t, world{}, split(args)...)
		for _, part := range want {
			if end.code != 0 || !strings.Contains(end.stdout, part) {
				t.Errorf("%s says nothing of %q:\n%s", args, part, end.stdout)
			}
		}
	}
}

// tierq --version prints the first line of tierq version, without a request to the server.
func TestVersionFlag(t *testing.T) {
	f := newFake(t)
	want := f.cli(t, world{}, "version", "--client").stdout
	if end := f.cli(t, world{}, "--version"); end.code != 0 || end.stdout != want || end.stderr != "" || want == "" {
		t.Errorf("%+v, want %q", end, want)
	}
	if end := f.cli(t, world{}, "--help"); !strings.Contains(end.stdout, "--version") {
		t.Errorf("the help does not name it:\n%s", end.stdout)
	}
	if n := len(f.requests("GET", "/")); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// An unknown command ends with the exit code of wrong usage. It prints nothing on standard output, and suggests a
// command.
func TestUnknownCommands(t *testing.T) {
	for args, says := range map[string]string{
		"srve":                     `unknown command "srve" of tierq: did you mean tierq serve?`,
		"bogus":                    `unknown command "bogus" of tierq: its commands are `,
		"bogus --count 3":          `unknown command "bogus" of tierq`,
		"tiers bogus":              `unknown command "bogus" of tierq tiers: its commands are create, get, set`,
		"tiers bogus --share 3":    `unknown command "bogus" of tierq tiers`,
		"tiers crate":              "did you mean tierq tiers create?",
		"tiers add gold":           "did you mean tierq tiers create?",
		"tiers list":               "did you mean tierq tiers get?",
		"keys bogus":               `"bogus" of tierq keys: its commands are create, gateway, generate, list, revoke, rotate`,
		"keys delete " + keyID:     "did you mean tierq keys revoke?",
		"jobs bogus":               `unknown command "bogus" of tierq jobs`,
		"jobs get " + doneID:       "did you mean tierq jobs show?",
		"jobs artifacts " + doneID: "did you mean tierq jobs artifact?",
		"dead retry " + failedID:   "did you mean tierq dead requeue?",
		"completion bogus":         `"bogus" of tierq completion: its commands are bash, fish, powershell, zsh`,
		"help bogus":               `unknown command "bogus" of tierq`,
		"help tiers bogus":         `unknown command "bogus" of tierq tiers`,
	} {
		f := newFake(t)
		end := f.cli(t, world{}, split(args)...)
		said := strings.Contains(end.stderr, says) && strings.Contains(end.stderr, "\nSee: tierq")
		if end.code != exitUsage || end.stdout != "" || !said {
			t.Errorf("tierq %s: code %d\n%s%s", args, end.code, end.stdout, end.stderr)
		}
		if n := len(f.requests("", "/")); n != 0 {
			t.Errorf("tierq %s: %d requests", args, n)
		}
	}
	f := newFake(t)
	for args, part := range map[string]string{
		"help tiers set": "--max-processing-time", "help": "Operators:", "tiers": "create", "completion": "zsh",
		"completion bash": "__tierq", "help serve": "--workers",
	} {
		if end := f.cli(t, world{}, split(args)...); end.code != 0 || !strings.Contains(end.stdout, part) {
			t.Errorf("tierq %s: %+v", args, end)
		}
	}
}
