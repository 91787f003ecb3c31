// Command tierq is the server and its CLI; one file per command. Without a command it serves.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or wrong settings, 130 and 143 stopped at once by a second signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
)

func main() {
	p := program{environ: os.Environ(), dotenv: ".env", stdout: os.Stdout, stderr: os.Stderr, serve: app.Run}
	os.Exit(p.execute(os.Args[1:]))
}

// program is what the commands need of the world; a test gives them a small one.
type program struct {
	environ        []string
	dotenv         string
	stdout, stderr io.Writer
	serve          func(context.Context, config.Config, app.Options) error
}

// failure is an error of a command that was used rightly: exit code 1. Every other error is one of usage: exit code 2.
type failure struct{ error }

func (p program) execute(args []string) int {
	root := p.serveCommand("tierq")
	root.Short = "A job queue server: paid before unpaid before public"
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(p.serveCommand("serve"), p.versionCommand(), p.healthcheckCommand())
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)

	err := root.Execute()
	if err == nil {
		return 0
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		for _, line := range problems.List {
			fmt.Fprintln(p.stderr, "tierq:", line)
		}
		return 2
	}
	fmt.Fprintln(p.stderr, "tierq:", err)
	if _, ok := errors.AsType[failure](err); ok {
		return 1
	}
	fmt.Fprintln(p.stderr, "See: tierq --help")
	return 2
}

// noArgs is cobra.NoArgs with a message that also fits where no command is expected.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}
