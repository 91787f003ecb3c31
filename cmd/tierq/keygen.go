package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/internal/app"
)

func (p program) keysGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "generate", Short: "Print a new key that no store knows, for TIERQ_ADMIN_KEY", Args: noArgs,
		Long: "Print a new key that no store knows, and change nothing. A server that is given it as TIERQ_ADMIN_KEY, or " +
			"in the file that\n" +
			"TIERQ_ADMIN_KEY_FILE names, takes it for an admin's: with it the other keys are made.",
		Example: "  (umask 077; tierq keys generate > admin.key)\n  TIERQ_ADMIN_KEY_FILE=admin.key tierq",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, app.GenerateKey())
			return err
		},
	}
}
