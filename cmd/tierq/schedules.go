package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) schedulesCommand() *cobra.Command {
	return group("schedules", "Make jobs at times, and see what comes", p.schedulesListCommand(), p.schedulesShowCommand(),
		p.schedulesSetCommand(), p.schedulesApplyCommand(), p.schedulesNextCommand(), p.schedulesRunCommand(),
		p.schedulesHoldCommand("pause"), p.schedulesHoldCommand("resume"), p.schedulesDeleteCommand())
}

func (p program) schedulesListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the schedules and what comes", Args: noArgs,
		Example: "  tierq schedules list\n  tierq schedules list -o wide"}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		all, err := s.client.Schedules(ctx)
		if err != nil {
			return err
		}
		return s.showSchedules(all)
	})
	return cmd
}

// timesOf says when a schedule fires.
func timesOf(s client.Schedule) string {
	if s.Every > 0 {
		return "every " + short(s.Every)
	}
	return s.Cron
}

func (s *session) showSchedules(all []client.Schedule) error {
	l := newList(s.output, func(c client.Schedule) string { return c.Name },
		column[client.Schedule]{head: "SCHEDULE", cell: func(c client.Schedule) string { return c.Name }},
		column[client.Schedule]{head: "TIMES", cell: timesOf},
		column[client.Schedule]{head: "ZONE", cell: func(c client.Schedule) string { return dash(c.Timezone) }},
		column[client.Schedule]{head: "TIER", cell: func(c client.Schedule) string { return string(c.Job.Tier) }},
		column[client.Schedule]{head: "TYPE", cell: func(c client.Schedule) string { return c.Job.Type }},
		column[client.Schedule]{head: "NEXT", cell: func(c client.Schedule) string {
			switch {
			case c.Paused != nil:
				return "paused"
			case len(c.Next) == 0:
				return "-"
			}
			return c.Next[0].UTC().Format(time.RFC3339)
		}},
		column[client.Schedule]{head: "LAST", cell: func(c client.Schedule) string { return s.time(c.Last) }},
		column[client.Schedule]{head: "OVERLAP", wide: true, cell: func(c client.Schedule) string {
			return string(c.Overlap)
		}},
		column[client.Schedule]{head: "CATCH UP", wide: true, cell: func(c client.Schedule) string {
			return string(c.CatchUp)
		}},
		column[client.Schedule]{head: "OWNER", wide: true, cell: func(c client.Schedule) string { return dash(c.Owner) }},
		column[client.Schedule]{head: "VERSION", wide: true, cell: func(c client.Schedule) string {
			return strconv.FormatInt(c.Version, 10)
		}},
	)
	for _, one := range all {
		if err := l.add(one); err != nil {
			return err
		}
	}
	return l.end(nil)
}

func (s *session) showOneSchedule(c client.Schedule) error {
	if s.format == asJSON {
		return s.document(c)
	}
	return s.showSchedules([]client.Schedule{c})
}

func (p program) schedulesShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show SCHEDULE", Short: "Show a schedule, its next and its last occurrences",
		Args: wants(1, 1, "a SCHEDULE"), Example: "  tierq schedules show nightly-report",
	}
	runs := cmd.Flags().Int("runs", 10, "show the last `n` runs")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		c, err := s.client.Schedule(ctx, args[0])
		if err != nil {
			return fmt.Errorf("schedule %s: %w", args[0], err)
		}
		if !s.readable() {
			return s.showOneSchedule(c)
		}
		list := []field{
			{name: "SCHEDULE", value: c.Name}, {name: "TIMES", value: timesOf(c)}, {name: "ZONE", value: c.Timezone},
			{name: "OVERLAP", value: string(c.Overlap)}, {name: "CATCH UP", value: string(c.CatchUp)},
			{name: "JITTER", value: shortOrNone(c.Jitter)}, {name: "TIER", value: string(c.Job.Tier)},
			{name: "TYPE", value: c.Job.Type}, {name: "QUEUE", value: c.Job.Queue}, {name: "KEY", value: c.Job.Key},
			rawField("PAYLOAD", c.Job.Payload), {name: "OWNER", value: c.Owner},
			{name: "VERSION", value: strconv.FormatInt(c.Version, 10)},
		}
		if c.Paused != nil {
			list = append(list, field{name: "PAUSED", value: s.time(c.Paused.Since) + " " + c.Paused.By + " " + c.Paused.Reason})
		}
		for _, at := range c.Next {
			list = append(list, field{name: "NEXT", value: at.UTC().Format(time.RFC3339)})
		}
		if err := s.fields(list...); err != nil {
			return err
		}
		if len(c.Runs) == 0 {
			return nil
		}
		if err := s.line(""); err != nil {
			return err
		}
		return s.showRuns(c.Runs[:min(len(c.Runs), max(*runs, 0))])
	})
	return cmd
}

func shortOrNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return short(d)
}

func (s *session) showRuns(runs []client.ScheduleRun) error {
	l := newList(s.output, func(r client.ScheduleRun) string { return r.JobID },
		column[client.ScheduleRun]{head: "OCCURRENCE", cell: func(r client.ScheduleRun) string {
			return r.Occurrence.UTC().Format(time.RFC3339)
		}},
		column[client.ScheduleRun]{head: "BECAME", cell: func(r client.ScheduleRun) string {
			switch {
			case r.JobID == "" && r.Missed == 1:
				return "missed: " + r.Reason
			case r.JobID == "" && r.Missed == 0:
				return "all missed until " + r.Through.UTC().Format(time.RFC3339) + ": " + r.Reason
			case r.JobID == "":
				return fmt.Sprintf("%d missed: %s", r.Missed, r.Reason)
			case r.Asked:
				return r.JobID + ", asked for"
			}
			return r.JobID
		}},
		column[client.ScheduleRun]{head: "STATE", cell: func(r client.ScheduleRun) string {
			switch {
			case r.JobID == "":
				return "-"
			case r.Living:
				return "living"
			}
			return "ended"
		}},
		column[client.ScheduleRun]{head: "WHY", cell: func(r client.ScheduleRun) string { return dash(r.Detail) }},
	)
	for _, one := range runs {
		if err := l.add(one); err != nil {
			return err
		}
	}
	return l.end(nil)
}

func (p program) schedulesNextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "next SCHEDULE", Short: "Say what a schedule will fire", Args: wants(1, 1, "a SCHEDULE"),
		Example: "  tierq schedules next nightly-report\n" +
			"  tierq schedules next nightly-report -n 3 --from 2026-10-24T00:00:00Z",
	}
	n := cmd.Flags().IntP("count", "n", 5, "say the next `n`, 1 to 100")
	from := cmd.Flags().String("from", "", "after this `moment`, such as 2026-12-01T08:00:00Z (default: now)")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		at, err := moment("--from", *from)
		if err != nil {
			return err
		}
		next, err := s.client.NextOfSchedule(ctx, args[0], at, *n)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", args[0], err)
		}
		if s.format == asJSON {
			return s.document(map[string]any{"items": next})
		}
		for _, at := range next {
			if err := s.line(at.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

func (p program) schedulesRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run SCHEDULE", Short: "Run a schedule now, beside its occurrences", Args: wants(1, 1, "a SCHEDULE"),
		Long: "Run a schedule now, beside its occurrences, and print the job's id. A paused schedule can be run, too.\n" +
			"A job of it that has not ended may forbid it, as its overlap says.",
		Example: "  tierq schedules run nightly-report",
	}
	key := cmd.Flags().String("idempotency-key", "", "a repeat with the same `key` gets the same job")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		id, err := s.client.RunSchedule(ctx, args[0], *key)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", args[0], err)
		}
		if s.readable() || s.format == asName {
			return s.line(id)
		}
		return s.document(map[string]any{"jobId": id, "schedule": args[0]})
	})
	return cmd
}

func (p program) schedulesHoldCommand(verb string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " SCHEDULE", Short: "Make no jobs until it is resumed", Args: wants(1, 1, "a SCHEDULE"),
		Example: "  tierq schedules " + verb + " nightly-report",
	}
	reason := ""
	if verb == "pause" {
		cmd.Flags().StringVar(&reason, "reason", "", "say `why`")
	} else {
		cmd.Short = "Go on with the next occurrence from now"
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) (err error) {
		var c client.Schedule
		if verb == "pause" {
			c, err = s.client.PauseSchedule(ctx, args[0], reason)
		} else {
			c, err = s.client.ResumeSchedule(ctx, args[0])
		}
		if err != nil {
			return fmt.Errorf("schedule %s: %w", args[0], err)
		}
		return s.showOneSchedule(c)
	})
	return cmd
}

func (p program) schedulesDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete SCHEDULE", Short: "Delete a schedule; jobs that it has made go on", Args: wants(1, 1, "a SCHEDULE"),
		Example: "  tierq schedules delete nightly-report",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		if err := s.client.DeleteSchedule(ctx, args[0]); err != nil {
			return fmt.Errorf("schedule %s: %w", args[0], err)
		}
		return s.showDeleted(args[0])
	})
	return cmd
}

func (p program) schedulesSetCommand() *cobra.Command {
	c, start, end, data := client.Schedule{}, "", "", ""
	cmd := &cobra.Command{
		Use: "set SCHEDULE", Short: "Store a schedule, in place of one that is there", Args: wants(1, 1, "a SCHEDULE"),
		Long: "Store a schedule, in place of one that is there: what no flag says is the default. " +
			"Its jobs belong to the key\n" +
			"that you show. For schedules in files: tierq schedules apply.",
		Example: "  tierq schedules set nightly-report --cron '30 2 * * *' --timezone Europe/Berlin --type REPORT " +
			"--data '{\"kind\": \"jobs\", \"format\": \"csv\"}'\n" +
			"  tierq schedules set warm-up --every 10m --tier public --type SIMULATION --overlap allow",
	}
	f := cmd.Flags()
	f.StringVar(&c.Cron, "cron", "", "fire by this `expression`, five fields or six with seconds, or @daily")
	durationVar(f, &c.Every, "every", 0,
		"fire each time this `time` has passed, such as 10m; from --start, or from 1970 on")
	f.StringVar(&c.Timezone, "timezone", "", "with --cron: the `zone` whose clock it means (default: UTC)")
	f.StringVar(&start, "start", "", "fire nothing before this `moment`, such as 2026-12-01T08:00:00Z")
	f.StringVar(&end, "end", "", "fire nothing after this `moment`")
	durationVar(f, &c.Jitter, "jitter", 0, "fire later by a part of this `time`, the same each time")
	f.StringVar((*string)(&c.Overlap), "overlap", "",
		"while an earlier job lives, do `this`: skip, allow, one or replace (default: skip)")
	f.StringVar((*string)(&c.CatchUp), "catch-up", "",
		"after a time without a server, fire `these`: last, none or all (default: last)")
	tier := f.String("tier", "unpaid", "the jobs' `tier`")
	f.StringVar(&c.Job.Type, "type", "SIMULATION", "the jobs' `type`")
	f.StringVar(&data, "data", "", "the jobs' payload: `JSON`, @file or - for standard input")
	f.StringVar(&c.Job.Queue, "queue", "", "let them wait in this `queue`")
	f.StringVar(&c.Job.Key, "key", "", "in a tier with lines, let them wait in the line of this `key`")
	retries := f.Int("max-retries", 0, "let a job have `n` retries at most")
	f.StringVar(&c.Job.Callback, "callback", "", "`URL` that is told of each job's end")
	durationVar(f, &c.Job.ExpiresIn, "expires-in", 0, "end a job that no worker claims within this `time`")
	cmd.MarkFlagsMutuallyExclusive("cron", "every")
	cmd.MarkFlagsOneRequired("cron", "every")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.talk(func(ctx context.Context, s *session, args []string) (err error) {
			c.Name = args[0]
			if c.Job.Tier, err = readTier(*tier); err != nil {
				return err
			}
			var wrong [2]error
			c.Start, wrong[0] = moment("--start", start)
			c.End, wrong[1] = moment("--end", end)
			if err := errors.Join(wrong[:]...); err != nil {
				return err
			}
			if data != "" {
				if c.Job.Payload, err = s.readData(data); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("max-retries") {
				c.Job.MaxRetries = retries
			}
			stored, err := s.client.PutSchedule(ctx, c, "")
			if err != nil {
				return fmt.Errorf("schedule %s: %w", args[0], err)
			}
			return s.showOneSchedule(stored)
		})(cmd, args)
	}
	return cmd
}
