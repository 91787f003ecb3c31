package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// scopeWords says what the arguments of pause and resume may be.
const scopeWords = "WHAT is all, tier NAME, queue NAME, or type NAME: the queue that takes only jobs of the type."

// knownWithin is how long pause waits for all processes to know.
const knownWithin = 5 * time.Second

// scopeOf returns the scope that arguments name.
func scopeOf(args []string) (string, error) {
	scope := strings.Join(args, ":")
	kind := args[0]
	if len(args) == 1 && (kind == "all" || strings.Contains(kind, ":")) ||
		len(args) == 2 && (kind == "tier" || kind == "queue" || kind == "type") {
		return scope, nil
	}
	return "", misused("%q is nothing to pause. %s", strings.Join(args, " "), scopeWords)
}

func (p program) pauseCommand() *cobra.Command {
	var asked client.Pause
	cmd := &cobra.Command{
		Use: "pause WHAT", Short: "Stop handing out all jobs, or those of a tier, queue or type", Args: wants(1, 2, "WHAT"),
		Long: "Stop handing out all jobs, or those of a tier, a queue or a type. Running jobs run on, and submits are\n" +
			"accepted unless --refuse is there. The command waits until every process that claims jobs knows.\n\n" + scopeWords,
		Example: "  tierq pause tier public --for 1h --reason 'a migration'\n  tierq pause queue films\n" +
			"  tierq pause all --refuse",
	}
	durationVar(cmd.Flags(), &asked.For, "for", 0, "resume by itself after this `time`; 0: not by itself")
	cmd.Flags().StringVar(&asked.Reason, "reason", "", "say `why`; pages and answers show it")
	cmd.Flags().BoolVar(&asked.Refuse, "refuse", false, "refuse submits of such jobs, too")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) (err error) {
		if asked.Scope, err = scopeOf(args); err != nil {
			return err
		}
		set, err := s.client.Pause(ctx, asked)
		if err != nil {
			return fmt.Errorf("pause %s: %w", asked.Scope, err)
		}
		if err := s.waitUntilKnown(ctx); err != nil {
			return err
		}
		if s.format == asJSON {
			return s.document(set)
		}
		return s.showPauses([]client.Pause{set})
	})
	return cmd
}

// waitUntilKnown waits until all processes know what is paused, and says so, or that some do not.
func (s *session) waitUntilKnown(ctx context.Context) error {
	for end := time.Now().Add(knownWithin); ; {
		now, err := s.client.Paused(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("it is paused; whether all processes know cannot be read: %w", err)
		case now.InForce:
			s.say("in force: %d of %d processes know", len(now.Processes), len(now.Processes))
			return nil
		case time.Now().After(end):
			var silent []string
			for _, one := range now.Processes {
				if !one.Current {
					silent = append(silent, one.Name)
				}
			}
			s.say("not in force everywhere yet: %s", strings.Join(silent, ", "))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p program) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume WHAT", Short: "Hand out jobs again that were paused", Args: wants(1, 2, "WHAT"),
		Long:    "Hand out jobs again that were paused, within about a second.\n\n" + scopeWords,
		Example: "  tierq resume tier public\n  tierq resume all",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		scope, err := scopeOf(args)
		if err != nil {
			return err
		}
		if err := s.client.Resume(ctx, scope); err != nil {
			return fmt.Errorf("resume %s: %w", scope, err)
		}
		s.say("%s is not paused", scope)
		return nil
	})
	return cmd
}

func (p program) pausedCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "paused", Short: "List what is paused, by whom and why", Args: noArgs,
		Example: "  tierq paused\n  tierq paused -o json"}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		now, err := s.client.Paused(ctx)
		if err != nil {
			return err
		}
		for _, one := range now.Processes {
			if !one.Current {
				s.say("%s does not know the latest change yet", one.Name)
			}
		}
		return s.showPauses(now.Items)
	})
	return cmd
}

func (s *session) showPauses(pauses []client.Pause) error {
	l := newList(s.output, func(p client.Pause) string { return p.Scope },
		column[client.Pause]{head: "PAUSED", cell: func(p client.Pause) string { return p.Scope }},
		column[client.Pause]{head: "SINCE", cell: func(p client.Pause) string { return s.time(p.Since) }},
		column[client.Pause]{head: "UNTIL", cell: func(p client.Pause) string { return s.time(p.Until) }},
		column[client.Pause]{head: "BY", cell: func(p client.Pause) string { return dash(p.By) }},
		column[client.Pause]{head: "SUBMITS", cell: func(p client.Pause) string {
			if p.Refuse {
				return "refused"
			}
			return "accepted"
		}},
		column[client.Pause]{head: "REASON", cell: func(p client.Pause) string { return dash(p.Reason) }},
	)
	for _, p := range pauses {
		if err := l.add(p); err != nil {
			return err
		}
	}
	return l.end(nil)
}
