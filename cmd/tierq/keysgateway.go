package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) keysGatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gateway [KEY_ID]", Short: "Show the password of an API key for Faktory's clients",
		Args: wants(0, 1, "at most one KEY_ID"),
		Long: "Show what Faktory's clients connect with as an API key: a password that the server derives from the key's\n" +
			"secret. A rotation of the key changes it, and a revocation ends it. Without KEY_ID it is that of your own key.",
		Example: "  tierq keys gateway k234567k234567ab\n  eval \"export $(tierq keys gateway)\"",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		var shown client.Gateway
		var err error
		if len(args) == 0 {
			shown, err = s.client.OwnGateway(ctx)
		} else {
			shown, err = s.client.KeyGateway(ctx, args[0])
		}
		switch {
		case err != nil:
			return err
		case s.format == asName:
			return s.line(shown.FaktoryURL)
		case !s.readable():
			return s.document(shown)
		}
		return s.line("FAKTORY_URL=" + shown.FaktoryURL)
	})
	return cmd
}
