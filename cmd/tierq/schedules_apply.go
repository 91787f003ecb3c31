package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// applied is the result of apply for a schedule.
type applied struct {
	Name   string `json:"name"`
	Change string `json:"change"` // created, changed, unchanged or deleted
}

func (p program) schedulesApplyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply", Short: "Store the schedules of files", Args: noArgs,
		Long: "Store the schedules of files in YAML or JSON, each with one schedule: the members of PUT\n" +
			"/admin/schedules/{name}, and name, which is the file's own if it is not there. Those that are as a file says\n" +
			"stay as they are. --prune deletes all schedules that no file has.",
		Example: "  tierq schedules apply -f schedules/ --dry-run\n  tierq schedules apply -f schedules/ --prune",
	}
	from := cmd.Flags().StringArrayP("file", "f", nil,
		"read this file, or the files of this folder, at a `path`; again for others")
	prune := cmd.Flags().Bool("prune", false, "delete the schedules that no file has")
	dry := cmd.Flags().Bool("dry-run", false, "change nothing; say what would change")
	_ = cmd.MarkFlagRequired("file") // there is such a flag
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		asked, err := readSchedules(*from)
		if err != nil {
			return err
		}
		there, err := s.client.Schedules(ctx)
		if err != nil {
			return err
		}
		l := newList(s.output, func(a applied) string { return a.Name },
			column[applied]{head: "SCHEDULE", cell: func(a applied) string { return a.Name }},
			column[applied]{head: "CHANGE", cell: func(a applied) string { return a.Change }},
		)
		for _, one := range asked {
			change, err := s.applySchedule(ctx, one, there, *dry)
			if err != nil {
				return errors.Join(l.end(nil), fmt.Errorf("schedule %s: %w", one.Name, err))
			}
			if err := l.add(applied{one.Name, change}); err != nil {
				return err
			}
		}
		for _, is := range there {
			if !*prune || slices.ContainsFunc(asked, func(a client.Schedule) bool { return a.Name == is.Name }) {
				continue
			}
			if !*dry {
				if err := s.client.DeleteSchedule(ctx, is.Name); err != nil {
					return errors.Join(l.end(nil), fmt.Errorf("schedule %s: %w", is.Name, err))
				}
			}
			if err := l.add(applied{is.Name, "deleted"}); err != nil {
				return err
			}
		}
		if *dry {
			s.say("nothing was changed: --dry-run")
		}
		return l.end(nil)
	})
	return cmd
}

// applySchedule stores a schedule, and says what that changed. A dry run compares it with what is there.
func (s *session) applySchedule(ctx context.Context, asked client.Schedule, there []client.Schedule, dry bool) (string,
	error) {
	at := slices.IndexFunc(there, func(is client.Schedule) bool { return is.Name == asked.Name })
	if dry {
		if at < 0 {
			return "created", nil
		}
		is, err := s.client.Schedule(ctx, asked.Name)
		if err != nil {
			return "", err
		}
		if alike(is, asked) {
			return "unchanged", nil
		}
		return "changed", nil
	}
	stored, err := s.client.PutSchedule(ctx, asked, "")
	switch {
	case err != nil:
		return "", err
	case at < 0:
		return "created", nil
	case stored.Version == there[at].Version:
		return "unchanged", nil
	}
	return "changed", nil
}

// alike says whether a server's schedule is as a file says. It compares neither the owner nor the queue that a server
// chooses for a type.
func alike(is, asked client.Schedule) bool {
	asked.Overlap, asked.CatchUp = cmp.Or(asked.Overlap, client.OverlapSkip), cmp.Or(asked.CatchUp, client.CatchUpLast)
	asked.Job.Tier, asked.Job.Queue = cmp.Or(asked.Job.Tier, client.Unpaid), cmp.Or(asked.Job.Queue, client.MainQueue)
	if asked.Cron != "" {
		asked.Timezone = cmp.Or(asked.Timezone, "UTC")
	}
	retries := func(j *client.ScheduledJob) int {
		if j.MaxRetries == nil {
			return -1
		}
		return *j.MaxRetries
	}
	x, y := is.Job, asked.Job
	return is.Cron == asked.Cron && is.Every == asked.Every && is.Timezone == asked.Timezone &&
		is.Start.Equal(asked.Start) && is.End.Equal(asked.End) && is.Jitter == asked.Jitter && is.Overlap == asked.Overlap &&
		is.CatchUp == asked.CatchUp && x.Tier == y.Tier && x.Type == y.Type && sameJSON(x.Payload, y.Payload) &&
		x.Queue == y.Queue && x.Key == y.Key && retries(&x) == retries(&y) && x.MaxRun == y.MaxRun &&
		x.Callback == y.Callback && x.ExpiresIn == y.ExpiresIn
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
