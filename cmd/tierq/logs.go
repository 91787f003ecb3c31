package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) jobsLogsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "logs JOB_ID", Short: "Show what a job's handlers logged", Args: wants(1, 1, "one JOB_ID"),
		Long: "Show what a job's handlers logged, over all its attempts, the oldest line first.\n\nWith -f it goes on with " +
			"the lines that come, until the job has ended. It begins again behind its last line\nafter an interruption: " +
			"it misses none. A line GAP stands where lines are lost.",
		Example: "  tierq jobs logs 019de340-01fe-7a58-be69-567cd7d6b7d4 -f\n  tierq jobs logs " +
			"019de340-01fe-7a58-be69-567cd7d6b7d4 --level warn -o ndjson",
	}
	var f client.LogFilter
	var follow bool
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with the lines that come, until the job has ended")
	cmd.Flags().StringVar(&f.Level, "level", "", "only of this `level` or a higher one: debug, info, warn, error")
	cmd.Flags().IntVar(&f.Attempt, "attempt", 0, "only of this attempt, a `number`; 0 is all")
	cmd.Flags().Int64Var(&f.After, "after", 0, "only behind the line of this `seq`, which -o ndjson shows")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		f.Level = strings.ToUpper(f.Level)
		if f.Attempt < 0 || f.After < 0 {
			return misused("--attempt and --after take a number, 0 or more")
		}
		var wrong error
		show := func(l client.LogLine) {
			if err := s.showLine(&l); err != nil && wrong == nil {
				wrong = err
			}
		}
		if follow {
			if s.format == asJSON {
				return misused("-f has no end of a document: use -o ndjson")
			}
			bounded, cancel := context.WithCancel(ctx)
			defer cancel()
			err := s.client.FollowLogs(bounded, args[0], f, func(l client.LogLine) {
				if show(l); wrong != nil {
					cancel() // the reader of the lines has gone
				}
			})
			if wrong != nil {
				return wrong
			}
			return err
		}
		for {
			page, err := s.client.Logs(ctx, args[0], f)
			if err != nil {
				return err
			}
			if s.format == asJSON {
				return s.document(page)
			}
			for _, l := range page.Items {
				show(l)
			}
			if f.After = page.After; !page.More || wrong != nil {
				return wrong
			}
		}
	})
	return cmd
}

// showLine prints a line of a log.
func (s *session) showLine(l *client.LogLine) error {
	switch {
	case s.format == asName:
		return s.line(fmt.Sprint(l.Seq))
	case !s.readable():
		return s.document(l)
	case l.Lost > 0:
		return s.line(fmt.Sprintf("%s  %d  GAP    %d lines are lost", l.At.Format(logTime), l.Attempt, l.Lost))
	}
	text := l.Text
	if len(l.Attrs) > 0 {
		text += "  " + string(l.Attrs)
	}
	return s.line(fmt.Sprintf("%s  %d  %-5s  %s", l.At.Format(logTime), l.Attempt, l.Level, text))
}

// logTime is the layout of a line's time.
const logTime = "2006-01-02T15:04:05.000Z07:00"
