package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) tiersCreateCommand() *cobra.Command {
	// The plan of UNPAID on a new server: a tier in the middle.
	a := client.Plan{
		MaxRetries: 2, HeartbeatTimeout: 6 * time.Second, MaxProcessingTime: 20 * time.Second, Share: 85,
		Backoff: client.Backoff{Base: 2 * time.Second, Factor: 2, Cap: 5 * time.Minute, Jitter: 0.2},
	}
	cmd := &cobra.Command{
		Use: "create TIER", Short: "Create a tier, on every instance at once", Args: wants(1, 1, "a TIER"),
		Long: "Create a tier, on every instance at once: tierq submit gold then submits to it. --priority must be there:\n" +
			"it says where the tier stands among the others, which tierq tiers get shows. Tiers of one priority are served\n" +
			"in the order in which their jobs came. A tier that exists is not changed.\n\n" +
			"A time is 15s, 2m or 1h; a bare number is seconds.",
		Example: "  tierq tiers create gold --priority 1 --max-retries 5\n" +
			"  tierq tiers create batch --priority 4 --max-processing-time 10m --share 50 --dry-run",
	}
	f := cmd.Flags()
	planFlags(f, &a)
	dryRun := f.Bool("dry-run", false, "only show the plan")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		tier, err := readTier(args[0])
		if err != nil {
			return err
		}
		if !f.Changed("priority") {
			return misused("--priority is missing: 1 goes first; tierq tiers get shows those of the other tiers")
		}
		a.Tier = tier
		exists := fmt.Errorf("tier %s exists already: tierq tiers set %s changes it", tier, strings.ToLower(string(tier)))
		if *dryRun {
			return s.planNewTier(ctx, a, exists)
		}
		stored, err := s.client.CreateTier(ctx, tier, a)
		if errors.Is(err, client.ErrChanged) && !errors.Is(err, client.ErrOutcomeUnknown) {
			return exists
		}
		if err != nil {
			return err
		}
		return s.showPlan(stored)
	})
	return cmd
}

// planNewTier shows the plan of a tier that does not exist yet. If the tier exists, it returns exists.
func (s *session) planNewTier(ctx context.Context, a client.Plan, exists error) error {
	plans, err := s.client.Tiers(ctx)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if p.Tier == a.Tier {
			return exists
		}
	}
	return s.showPlan(a)
}
