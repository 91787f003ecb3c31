// Command tierq is the server and its CLI; each command has a file of its own. Without a command it serves. The
// commands that talk to a server use only HTTP, through package client.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or wrong settings, 130 and 143 stopped by a signal (the server: by a
// second one). The commands that talk to a server also have those of exit.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
)

func main() {
	p := program{environ: os.Environ(), dotenv: ".env", stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		tty: onTerminal, now: time.Now, serve: app.Run}
	os.Exit(p.execute(os.Args[1:]))
}

// program holds the parts of the environment that the commands use; tests replace them.
type program struct {
	environ        []string
	dotenv         string
	stdin          io.Reader
	stdout, stderr io.Writer
	tty            func(stream any) bool // reports whether a stream is a terminal; nil = none is
	now            func() time.Time
	serve          func(context.Context, config.Config, app.Options) error

	global *globals // set by root
}

// failure is the error of a correctly used command: exit code 1, see also outcome. Every other error is a usage
// error: exit code 2.
type failure struct{ error }

func (p program) execute(args []string) int {
	if cmd, err := p.unknownCommand(args); err != nil {
		return p.misused(cmd, err)
	}
	root := p.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	if stop, ok := errors.AsType[stopped](err); ok {
		return stop.code
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		for _, line := range problems.List {
			fmt.Fprintln(p.stderr, "tierq:", line)
		}
		return 2
	}
	if end, ok := errors.AsType[outcome](err); ok {
		end.tell(p.stderr)
		return end.code
	}
	if _, ok := errors.AsType[failure](err); ok {
		fmt.Fprintln(p.stderr, "tierq:", err)
		return 1
	}
	return p.misused(cmd, err)
}

// misused prints a usage error and the command whose help explains it. It returns exit code 2.
func (p program) misused(cmd *cobra.Command, err error) int {
	fmt.Fprintln(p.stderr, "tierq:", err)
	fmt.Fprintln(p.stderr, "See:", cmd.CommandPath(), "--help")
	return 2
}

// The groups in the help.
const (
	serverGroup   = "server"
	jobsGroup     = "jobs"
	operatorGroup = "operator"
)

// root returns the command tree. Without a subcommand tierq serves, so root has the settings as flags; the help
// shows them only for serve.
func (p program) root() *cobra.Command {
	p.global = &globals{}
	root := p.serveCommand("tierq")
	root.Short = "A job queue server: paid before unpaid before public"
	root.Example = "  tierq serve                 # start a server, with everything inside\n" +
		"  tierq submit paid --wait    # in another terminal: a first job, to its end\n" +
		"  tierq jobs list             # the jobs that there are\n" +
		"  tierq stats --watch 2s      # what the server is doing\n" +
		"  tierq doctor                # whether all is well, and what to do if not"
	root.Version = readVersion().text()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version; tierq version also asks the server for its own")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	global := p.global.flags()
	root.PersistentFlags().AddFlagSet(global)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return onlyForClients(cmd, global) }

	root.AddGroup(
		&cobra.Group{ID: serverGroup, Title: "The server:"},
		&cobra.Group{ID: jobsGroup, Title: "Jobs:"},
		&cobra.Group{ID: operatorGroup, Title: "Operators:"},
	)
	root.SetHelpCommandGroupID(serverGroup)
	root.SetCompletionCommandGroupID(serverGroup)
	add := func(group string, list ...*cobra.Command) {
		for _, cmd := range list {
			cmd.GroupID = group
		}
		root.AddCommand(list...)
	}
	add(serverGroup, p.serveCommand("serve"), p.healthcheckCommand(), p.versionCommand())
	add(jobsGroup, p.submitCommand(), p.pollCommand(), p.watchCommand(), p.jobsCommand(), p.flowCommand(),
		p.batchCommand())
	add(operatorGroup, p.deadCommand(), p.tiersCommand(), p.queuesCommand(), p.linesCommand(), p.schedulesCommand(),
		p.pauseCommand(),
		p.resumeCommand(),
		p.pausedCommand(), p.workersCommand(),
		p.keysCommand(), p.changesCommand(), p.statsCommand(), p.doctorCommand())

	root.InitDefaultCompletionCmd()
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		switch {
		case cmd == root:
			cmd.Long = "The server and its command line. Without a command tierq serves; its settings: tierq serve --help"
			hide(cmd.LocalNonPersistentFlags())
		case !isClient(cmd):
			hide(global)
		}
		help(cmd, args)
	})
	return root
}

func hide(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "help" && f.Name != "version" })
}

// isClient reports whether a command talks to a server, and so uses the global flags.
func isClient(cmd *cobra.Command) bool {
	for ; cmd.HasParent(); cmd = cmd.Parent() {
		if cmd.GroupID == jobsGroup || cmd.GroupID == operatorGroup || cmd.Name() == "version" {
			return true
		}
	}
	return false
}

// onlyForClients refuses the client flags for commands that would ignore them.
func onlyForClients(cmd *cobra.Command, global *pflag.FlagSet) (err error) {
	if isClient(cmd) {
		return nil
	}
	global.VisitAll(func(f *pflag.Flag) {
		if f.Changed && err == nil {
			err = fmt.Errorf("--%s is for the commands that talk to a server", f.Name)
		}
	})
	return err
}

// noArgs is cobra.NoArgs with a message that also suits a command without subcommands.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}
