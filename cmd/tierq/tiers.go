package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierq/tierq/client"
)

func (p program) tiersCommand() *cobra.Command {
	const what = "Show, change and create tiers"
	return group("tiers", what, p.tiersGetCommand(), p.tiersSetCommand(), p.tiersCreateCommand())
}

func (p program) tiersGetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get [TIER]", Short: "Show what the tiers promise", Args: wants(0, 1, ""),
		Example: "  tierq tiers get\n  tierq tiers get paid -o json"}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		plans, err := s.client.Tiers(ctx)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return s.showPlans(plans)
		}
		plan, err := planOf(plans, args[0])
		if err != nil {
			return err
		}
		return s.showPlan(plan)
	})
	return cmd
}

func planOf(plans []client.Plan, name string) (client.Plan, error) {
	tier, err := readTier(name)
	if err != nil {
		return client.Plan{}, err
	}
	for _, p := range plans {
		if p.Tier == tier {
			return p, nil
		}
	}
	return client.Plan{}, fmt.Errorf("tier %s: %w", tier, client.ErrNotFound)
}

func (s *session) showPlans(plans []client.Plan) error {
	l := newList(s.output, func(p client.Plan) string { return string(p.Tier) },
		column[client.Plan]{head: "TIER", cell: func(p client.Plan) string { return string(p.Tier) }},
		column[client.Plan]{head: "PRIORITY", cell: func(p client.Plan) string { return strconv.Itoa(p.Priority) }},
		column[client.Plan]{head: "RETRIES", cell: func(p client.Plan) string { return strconv.Itoa(p.MaxRetries) }},
		column[client.Plan]{head: "CRASHES", cell: func(p client.Plan) string { return crashesText(p.MaxCrashes) }},
		column[client.Plan]{head: "HEARTBEAT", cell: func(p client.Plan) string { return short(p.HeartbeatTimeout) }},
		column[client.Plan]{head: "MAX TIME", cell: func(p client.Plan) string { return short(p.MaxProcessingTime) }},
		column[client.Plan]{head: "SHARE", cell: func(p client.Plan) string { return strconv.Itoa(p.Share) + "%" }},
		column[client.Plan]{head: "OWN SLOTS", cell: func(p client.Plan) string { return strconv.Itoa(p.OwnSlots) }},
		column[client.Plan]{head: "LINES", cell: func(p client.Plan) string { return cmp.Or(p.Lines, "off") }},
		column[client.Plan]{head: "BACKOFF", cell: func(p client.Plan) string { return backoff(p.Backoff) }},
		column[client.Plan]{head: "MAX WAIT", wide: true, cell: func(p client.Plan) string {
			if p.MaxWait == 0 {
				return "-"
			}
			return short(p.MaxWait)
		}},
		column[client.Plan]{head: "BY TYPE", wide: true,
			cell: func(p client.Plan) string { return strconv.Itoa(len(p.TypeBackoff)) }},
		column[client.Plan]{head: "VERSION", wide: true,
			cell: func(p client.Plan) string { return strconv.FormatInt(p.Version, 10) }},
	)
	for _, p := range plans {
		if err := l.add(p); err != nil {
			return err
		}
	}
	return l.end(nil)
}

// showPlan prints one plan.
func (s *session) showPlan(p client.Plan) error {
	if s.format == asJSON {
		return s.document(p)
	}
	return s.showPlans([]client.Plan{p})
}

func backoff(b client.Backoff) string {
	if b.Base == 0 {
		return "none"
	}
	return fmt.Sprintf("%s x%g to %s", short(b.Base), b.Factor, short(b.Cap))
}

// planFlags adds a flag for each field of a plan. The plan's present values are the defaults.
func planFlags(f *pflag.FlagSet, a *client.Plan) {
	f.IntVar(&a.Priority, "priority", a.Priority, "the tier's place `n` in the order: 1 goes first")
	f.IntVar(&a.MaxRetries, "max-retries", a.MaxRetries, "retry a job `n` times after its first attempt")
	f.Var(crashesFlag{&a.MaxCrashes}, "max-crashes",
		"a job may lose its worker `n` times, then it is a dead letter; none: a crash counts as a retry")
	f.IntVar(&a.OwnSlots, "own-slots", a.OwnSlots, "keep `n` slots of each process for jobs of the tier's priority")
	f.StringVar(&a.Lines, "lines", a.Lines,
		"which jobs wait in lines by key, which share the worker time: `off`, key or owner (without a key, by API key)")
	durationVar(f, &a.MaxWait, "max-wait", a.MaxWait, "a job that no worker claims for this `time` expires; 0: never")
	durationVar(f, &a.HeartbeatTimeout, "heartbeat-timeout", a.HeartbeatTimeout,
		"`time` without a heartbeat after which a worker is taken for dead")
	durationVar(f, &a.MaxProcessingTime, "max-processing-time", a.MaxProcessingTime,
		"`time` after which a running job is taken for stuck")
	f.IntVar(&a.Share, "share", a.Share, "`percent` of the capacity at which the tier is refused")
	durationVar(f, &a.Backoff.Base, "backoff-base", a.Backoff.Base, "`time` before the first retry; 0: none")
	f.Float64Var(&a.Backoff.Factor, "backoff-factor", a.Backoff.Factor, "`factor` by which the wait grows with each retry")
	durationVar(f, &a.Backoff.Cap, "backoff-cap", a.Backoff.Cap, "the longest `time` between two attempts")
	f.Float64Var(&a.Backoff.Jitter, "backoff-jitter", a.Backoff.Jitter, "the random `part` of the wait, 0 to 1")
}

// noCrashes is how a plan without MaxCrashes is printed and asked for.
const noCrashes = "none"

func crashesText(n *int) string {
	if n == nil {
		return noCrashes
	}
	return strconv.Itoa(*n)
}

// crashesFlag is the value of --max-crashes.
type crashesFlag struct{ of **int }

func (f crashesFlag) String() string {
	if f.of == nil {
		return noCrashes
	}
	return crashesText(*f.of)
}

func (f crashesFlag) Set(text string) error {
	if text == noCrashes || text == "" {
		*f.of = nil
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is neither a number nor %s", text, noCrashes)
	}
	*f.of = &n
	return nil
}

func (f crashesFlag) Type() string { return "n" }

func (p program) tiersSetCommand() *cobra.Command {
	var a client.Plan
	cmd := &cobra.Command{
		Use: "set TIER", Short: "Change a tier's plan, on every instance at once", Args: wants(1, 1, "a TIER"),
		Long: "Change a tier's plan, on every instance at once, and show the changes. Fields without a flag stay as they\n" +
			"are. Jobs that wait keep their place. If another caller changed the plan meanwhile, tierq writes nothing.\n\n" +
			"A time is 15s, 2m or 1h; a bare number is seconds.",
		Example: "  tierq tiers set public --share 40 --max-retries 2\n  tierq tiers set paid --max-processing-time 2m --dry-run",
	}
	f := cmd.Flags()
	planFlags(f, &a)
	dryRun := f.Bool("dry-run", false, "only show what would change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.talk(func(ctx context.Context, s *session, args []string) error {
			plans, err := s.client.Tiers(ctx)
			if err != nil {
				return err
			}
			was, err := planOf(plans, args[0])
			if err != nil {
				return err
			}
			next, changes, named := changed(was, &a, cmd.Flags().Changed)
			if !named {
				return misused("nothing to change: name a field, such as --max-retries 3")
			}
			for _, c := range changes {
				s.say("%s %s", was.Tier, c)
			}
			if len(changes) == 0 {
				s.say("%s has these values already", was.Tier)
			}
			if len(changes) == 0 || *dryRun {
				return s.showPlan(next)
			}
			stored, err := s.client.SetTier(ctx, was.Tier, next, was.ETag())
			if err != nil {
				return err
			}
			return s.showPlan(stored)
		})(cmd, args)
	}
	return cmd
}

// changed returns the plan with the fields that flags name, and a list of the differences. named means that at
// least one flag was given.
func changed(was client.Plan, a *client.Plan, used func(flag string) bool) (next client.Plan, changes []string,
	named bool) {
	next = was
	numbers := []struct {
		flag     string
		was, now any
		set      func()
	}{
		{"priority", was.Priority, a.Priority, func() { next.Priority = a.Priority }},
		{"max-retries", was.MaxRetries, a.MaxRetries, func() { next.MaxRetries = a.MaxRetries }},
		{"max-crashes", crashesText(was.MaxCrashes), crashesText(a.MaxCrashes), func() { next.MaxCrashes = a.MaxCrashes }},
		{"own-slots", was.OwnSlots, a.OwnSlots, func() { next.OwnSlots = a.OwnSlots }},
		{"lines", was.Lines, a.Lines, func() { next.Lines = a.Lines }},
		{"max-wait", was.MaxWait, a.MaxWait, func() { next.MaxWait = a.MaxWait }},
		{"heartbeat-timeout", was.HeartbeatTimeout, a.HeartbeatTimeout,
			func() { next.HeartbeatTimeout = a.HeartbeatTimeout }},
		{"max-processing-time", was.MaxProcessingTime, a.MaxProcessingTime,
			func() { next.MaxProcessingTime = a.MaxProcessingTime }},
		{"share", was.Share, a.Share, func() { next.Share = a.Share }},
		{"backoff-base", was.Backoff.Base, a.Backoff.Base, func() { next.Backoff.Base = a.Backoff.Base }},
		{"backoff-factor", was.Backoff.Factor, a.Backoff.Factor, func() { next.Backoff.Factor = a.Backoff.Factor }},
		{"backoff-cap", was.Backoff.Cap, a.Backoff.Cap, func() { next.Backoff.Cap = a.Backoff.Cap }},
		{"backoff-jitter", was.Backoff.Jitter, a.Backoff.Jitter, func() { next.Backoff.Jitter = a.Backoff.Jitter }},
	}
	for _, n := range numbers {
		if !used(n.flag) {
			continue
		}
		named = true
		if n.was != n.now {
			changes = append(changes, fmt.Sprintf("%s: %s -> %s", n.flag, value(n.was), value(n.now)))
			n.set()
		}
	}
	return next, changes, named
}

func value(v any) string {
	if d, ok := v.(time.Duration); ok {
		return short(d)
	}
	return fmt.Sprint(v)
}
