package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/internal/app"
)

func (p program) keysGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "generate", Short: "Print a new key for TIERQ_ADMIN_KEY, stored nowhere", Args: noArgs,
		Long: "Print a new key, and store it nowhere. A server that gets it as TIERQ_ADMIN_KEY, or in the file that\n" +
			"TIERQ_ADMIN_KEY_FILE names, treats it as an admin key, with which you make the other keys.",
		Example: "  (umask 077; tierq keys generate > admin.key)\n  TIERQ_ADMIN_KEY_FILE=admin.key tierq",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, app.GenerateKey())
			return err
		},
	}
}
