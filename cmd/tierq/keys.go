package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) keysCommand() *cobra.Command {
	return group("keys", "Make, list, rotate and revoke API keys", p.keysCreateCommand(), p.keysListCommand(),
		p.keysRotateCommand(), p.keysRevokeCommand(), p.keysGatewayCommand(), p.keysGenerateCommand())
}

func (p program) keysListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the API keys", Args: noArgs,
		Example: "  tierq keys list\n  tierq keys list -o wide"}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		keys, err := s.client.Keys(ctx)
		if err != nil {
			return err
		}
		l := newList(s.output, func(k client.Key) string { return k.ID }, s.keyColumns()...)
		for _, k := range keys {
			if err := l.add(k); err != nil {
				return err
			}
		}
		if len(keys) == 0 && s.readable() {
			s.say("none: the server is open, or its only key is TIERQ_ADMIN_KEY")
		}
		return l.end(nil)
	})
	return cmd
}

func (s *session) keyColumns() []column[client.Key] {
	return []column[client.Key]{
		{head: "KEY", cell: func(k client.Key) string { return k.ID }},
		{head: "NAME", cell: func(k client.Key) string { return k.Name }},
		{head: "ROLE", cell: func(k client.Key) string { return roleOf(&k) }},
		{head: "STATE", cell: func(k client.Key) string { return s.stateOf(&k) }},
		{head: "TIERS", cell: func(k client.Key) string { return names(k.Tiers) }},
		{head: "LIMITS", cell: func(k client.Key) string { return dash(limits(&k)) }},
		{head: "USED", cell: func(k client.Key) string { return s.time(k.LastUsedAt) }},
		{head: "TYPES", wide: true, cell: func(k client.Key) string { return names(k.Types) }},
		{head: "QUEUES", wide: true, cell: func(k client.Key) string { return names(k.Queues) }},
		{head: "CREATED", wide: true, cell: func(k client.Key) string { return s.time(k.CreatedAt) }},
		{head: "BY", wide: true, cell: func(k client.Key) string { return dash(k.CreatedBy) }},
		{head: "ROTATED", wide: true, cell: func(k client.Key) string { return s.time(k.RotatedAt) }},
		{head: "EXPIRES", wide: true, cell: func(k client.Key) string { return s.time(k.ExpiresAt) }},
	}
}

// stateOf returns whether a key is valid, and otherwise why not.
func (s *session) stateOf(k *client.Key) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case !k.ExpiresAt.IsZero() && !s.now().Before(k.ExpiresAt):
		return "expired"
	}
	return "valid"
}

func (p program) keysRotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate KEY_ID", Short: "Give an API key a new secret, and show it once", Args: wants(1, 1, "a KEY_ID"),
		Long: "Give an API key a new secret, and show it once. The key keeps its id and its jobs. The old secret stays\n" +
			"valid for --grace, so that you can replace it everywhere.",
		Example: "  tierq keys rotate k234567k234567ab\n  tierq keys rotate k234567k234567ab --grace 0s",
	}
	grace := cmd.Flags().String("grace", "24h",
		"`time` for which the old secret stays valid, such as 24h or 7d; at most 30d")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		left, err := readSpan("grace", *grace)
		if err != nil {
			return err
		}
		return p.talk(func(ctx context.Context, s *session, args []string) error {
			made, err := s.client.RotateKey(ctx, args[0], left)
			if err != nil {
				return err
			}
			return s.showMade(made)
		})(cmd, args)
	}
	return cmd
}

func (p program) keysRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke KEY_ID...", Short: "Revoke API keys for good", Args: wants(1, maxIDs, "a KEY_ID"),
		Long:    "Revoke API keys for good: every instance refuses them within two seconds. Their jobs run on.",
		Example: "  tierq keys revoke k234567k234567ab",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, ids []string) error {
		l := newList(s.output, func(r revoked) string { return r.ID },
			column[revoked]{head: "KEY", cell: func(r revoked) string { return r.ID }},
			column[revoked]{head: "STATE", cell: func(revoked) string { return "revoked" }})
		for _, id := range ids {
			if err := s.client.RevokeKey(ctx, id); err != nil {
				_ = l.flush() // prints the revoked keys before the error
				return err
			}
			if err := l.add(revoked{id, true}); err != nil {
				return err
			}
		}
		return l.end(nil)
	})
	return cmd
}

// revoked is the result of a revocation.
type revoked struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked"`
}

// names joins the tiers, types or queues of a key; an empty list is "all".
func names[T ~string](list []T) string {
	if len(list) == 0 {
		return "all"
	}
	all := make([]string, len(list))
	for i, name := range list {
		all[i] = string(name)
	}
	return strings.Join(all, " ")
}

// roleOf returns a key's role in words.
func roleOf(k *client.Key) string {
	if k.Submits {
		return string(k.Role) + "+submit"
	}
	return string(k.Role)
}

// limits returns a key's rate and bounds in words; "" if it has none.
func limits(k *client.Key) string {
	var all []string
	if k.Rate > 0 {
		text := strconv.FormatFloat(k.Rate, 'f', -1, 64) + "/s"
		if k.Burst > 0 {
			text += " burst " + strconv.Itoa(k.Burst)
		}
		all = append(all, text)
	}
	if k.InFlight > 0 {
		all = append(all, strconv.Itoa(k.InFlight)+" in flight")
	}
	if k.Leases > 0 {
		all = append(all, strconv.Itoa(k.Leases)+" leases")
	}
	return strings.Join(all, ", ")
}
