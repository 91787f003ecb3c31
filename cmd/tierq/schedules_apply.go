package main

import (
	"context"
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
			"/admin/schedules/{name}, and name, which is the file's own if it is not there. A schedule that is as its file\n" +
			"says stays as it is. The server checks all of them before it stores one. --prune deletes all schedules that\n" +
			"no file has.",
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
		changes, err := s.trySchedules(ctx, asked, there)
		if err != nil {
			return err
		}
		for i, one := range asked {
			if !*dry && changes[i].Change != "unchanged" {
				if _, err := s.client.PutSchedule(ctx, one, ""); err != nil {
					return errors.Join(l.end(nil), fmt.Errorf("schedule %s: %w", one.Name, err))
				}
			}
			if err := l.add(changes[i]); err != nil {
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

// trySchedules asks the server what storing each schedule would change. The first schedule that the server would refuse
// ends it with the reason.
func (s *session) trySchedules(ctx context.Context, asked, there []client.Schedule) ([]applied, error) {
	var all []applied
	for _, one := range asked {
		would, err := s.client.TrySchedule(ctx, one, "")
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", one.Name, err)
		}
		change := "changed"
		if at := slices.IndexFunc(there, func(is client.Schedule) bool { return is.Name == one.Name }); at < 0 {
			change = "created"
		} else if there[at].Version == would.Version {
			change = "unchanged"
		}
		all = append(all, applied{one.Name, change})
	}
	return all, nil
}
