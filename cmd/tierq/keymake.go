package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/app"
)

func (p program) keysCreateCommand() *cobra.Command {
	var k client.NewKey
	var role, expires string
	var tiers []string
	var store bool
	cmd := &cobra.Command{
		Use: "create", Short: "Make an API key, and show it once", Args: noArgs,
		Long: "Make an API key, and show it once. The first key closes an open server, and must have the role admin.\n\n" +
			"With --store the key is made in the store that the settings name (MYSQL_DSN, or the file under TIERQ_DATA_DIR), " +
			"without a server:\n" +
			"for the first key of a server that others can reach, and for the day on which the last admin key is lost.",
		Example: "  tierq keys create --name ada --role admin\n  tierq keys create --name website --role submit --tier " +
			"public --type SEND_EMAIL --rate 50 --expires 90d\n" +
			"  tierq keys create --name thumbs --role worker --queue 'pictures*' --leases 32 --submits\n" +
			"  tierq keys create --name root --role admin --store",
	}
	f := cmd.Flags()
	f.StringVar(&k.Name, "name", "", "the key's `name`: who uses it, or for what")
	f.StringVar(&role, "role", "", "its `role`, which is what it may do: submit, read-only, admin or worker")
	f.StringArrayVar(&tiers, "tier", nil,
		"a `tier` it may submit to, or a worker's key may claim; again for others (default: all)")
	f.StringArrayVar(&k.Types, "type", nil, "a job `type` it may submit; again for others (default: all)")
	f.StringArrayVar(&k.Queues, "queue", nil,
		"a `queue` whose jobs a worker's key may claim, or 'images*' for all whose name begins so; again for others "+
			"(default: all)")
	f.BoolVar(&k.Submits, "submits", false, "a worker's key may also submit, to its queues")
	f.IntVar(&k.Leases, "leases", 0, "a worker's key may run at most `n` jobs at once (default: any number)")
	f.Float64Var(&k.Rate, "rate", 0, "at most `n` requests a second (default: any number)")
	f.IntVar(&k.Burst, "burst", 0, "`n` requests at once before the rate counts (default: one second's worth)")
	f.IntVar(
		&k.InFlight, "in-flight", 0, "at most `n` jobs accepted and not ended (default: TIERQ_KEY_QUOTA of the server)",
	)
	f.StringVar(&expires, "expires", "", "the key expires after this `time`, such as 90d or 12h (default: never)")
	f.BoolVar(&store, "store", false, "make it in the store, without a server")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k.Role = client.Role(role)
		if k.Name == "" || k.Role == "" {
			return misused("--name and --role must both be set")
		}
		for _, name := range tiers {
			tier, err := readTier(name)
			if err != nil {
				return err
			}
			k.Tiers = append(k.Tiers, tier)
		}
		left, err := readSpan("expires", expires)
		if err != nil {
			return err
		}
		if store {
			return p.storeKey(cmd.Context(), k, left)
		}
		return p.talk(func(ctx context.Context, s *session, _ []string) error {
			if left > 0 {
				k.ExpiresAt = s.now().Add(left)
			}
			made, err := s.client.CreateKey(ctx, k)
			if err != nil {
				return err
			}
			return s.showMade(made)
		})(cmd, args)
	}
	return cmd
}

// storeKey creates a key without a server.
func (p program) storeKey(parent context.Context, k client.NewKey, left time.Duration) error {
	s, err := p.open(nil)
	if err != nil {
		return err
	}
	defer s.client.Close()
	asked := app.NewKey{Name: k.Name, Role: string(k.Role), Types: k.Types, Queues: k.Queues,
		Submits: k.Submits, Leases: k.Leases, Rate: k.Rate, Burst: k.Burst, InFlight: k.InFlight, Expires: left}
	for _, tier := range k.Tiers {
		asked.Tiers = append(asked.Tiers, string(tier))
	}
	return interruptible(parent, func(ctx context.Context) error {
		id, text, err := p.createInStore(ctx, asked)
		if err != nil {
			return err
		}
		made := client.MadeKey{Text: text, Key: client.Key{
			ID: id, Name: k.Name, Role: k.Role, Tiers: k.Tiers, Types: k.Types, Queues: k.Queues,
			Submits: k.Submits, Leases: k.Leases, Rate: k.Rate, Burst: k.Burst, InFlight: k.InFlight, CreatedAt: s.now(),
		}}
		if left > 0 {
			made.ExpiresAt = s.now().Add(left)
		}
		return s.showMade(made)
	})
}

// showMade prints a new key with its text, which is never shown again.
func (s *session) showMade(k client.MadeKey) error {
	switch {
	case s.format == asName:
		return s.line(k.Text)
	case !s.readable():
		return s.document(k)
	}
	fields := []field{
		{name: "KEY", value: k.Text}, {name: "ID", value: k.ID}, {name: "NAME", value: k.Name}, {name: "ROLE",
			value: roleOf(&k.Key)},
		{name: "TIERS", value: names(k.Tiers)}, {name: "TYPES", value: names(k.Types)},
		{name: "QUEUES", value: names(k.Queues)}, {name: "LIMITS", value: limits(&k.Key)},
		{name: "EXPIRES", value: s.moment(k.ExpiresAt)},
	}
	if k.Webhook != nil {
		fields = append(fields, field{name: "WEBHOOK SECRET", value: k.Webhook.Secret},
			field{name: "WEBHOOK PUBLIC KEY", value: k.Webhook.PublicKey})
	}
	err := s.fields(fields...)
	s.say("Keep the key now: it is not shown again.")
	return err
}

// readSpan reads a time such as 12h or 90d; "" is 0. name is that of the flag. A bare number is refused, because
// keys live for hours or for days.
func readSpan(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if bareNumber.MatchString(text) {
		return 0, misused("--%s %q has no unit: say 90d or 12h", name, text)
	}
	d, err := readDuration(text)
	if err != nil || d < 0 {
		return 0, misused("--%s %q is no time such as 12h or 90d", name, text)
	}
	return d, nil
}
