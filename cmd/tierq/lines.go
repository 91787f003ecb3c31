package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierq/tierq/client"
)

func (p program) linesCommand() *cobra.Command {
	return group("lines", "See which keys wait and run, and limit a key", p.linesListCommand(), p.linesGetCommand(),
		p.linesSetCommand())
}

func (p program) linesListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the longest lines", Args: noArgs,
		Long: "List the longest lines: the ready jobs of one key, tier and queue. The share is of the worker time that\n" +
			"all lines of the tier had in the last five minutes. A line is noisy if its share is more than a tenth, and\n" +
			"thirty attempts of its key or more run.",
		Example: "  tierq lines list\n  tierq lines list --share --limit 50",
	}
	limit := cmd.Flags().Int("limit", 20, "list `n` lines at most, 1 to 100")
	running := cmd.Flags().Bool("running", false, "list the keys with the most running attempts first")
	share := cmd.Flags().Bool("share", false, "list the lines with the largest share first")
	cmd.MarkFlagsMutuallyExclusive("running", "share")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		order := client.ByWaiting
		if *running {
			order = client.ByRunning
		} else if *share {
			order = client.ByShare
		}
		now, err := s.client.Lines(ctx, *limit, order)
		if err != nil {
			return err
		}
		if err := s.showLines(now.Items); err != nil {
			return err
		}
		s.say("%d lines in all, %d running attempts", now.Lines, now.Running)
		return nil
	})
	return cmd
}

// wordsOf names a key of lines.
func wordsOf(k client.LineKey) string {
	switch {
	case k.Owner != "":
		return "owner " + k.Owner
	case k.Key == "":
		return "(no key)"
	}
	return k.Key
}

func (s *session) showLines(lines []client.Line) error {
	l := newList(s.output, func(l client.Line) string { return wordsOf(l.LineKey) },
		column[client.Line]{head: "KEY", cell: func(l client.Line) string { return wordsOf(l.LineKey) }},
		column[client.Line]{head: "TIER", cell: func(l client.Line) string { return string(l.Tier) }},
		column[client.Line]{head: "QUEUE", cell: func(l client.Line) string { return l.Queue }},
		column[client.Line]{head: "WAITING", cell: func(l client.Line) string { return strconv.FormatInt(l.Waiting, 10) }},
		column[client.Line]{head: "RUNNING", cell: func(l client.Line) string { return strconv.Itoa(l.Running) }},
		column[client.Line]{head: "SHARE", cell: func(l client.Line) string {
			return strconv.FormatFloat(100*l.Share, 'f', 0, 64) + "%"
		}},
		column[client.Line]{head: "STATE", cell: func(l client.Line) string {
			switch {
			case l.Parked && !l.Until.IsZero():
				return "waits until " + s.time(l.Until)
			case l.Parked:
				return "at its limit"
			case l.Noisy:
				return "noisy"
			}
			return "-"
		}},
	)
	for _, one := range lines {
		if err := l.add(one); err != nil {
			return err
		}
	}
	return l.end(nil)
}

// keyFlag adds --owner. The result names the key of lines that an argument and the flag name.
func keyFlag(f *pflag.FlagSet) func(args []string) (client.LineKey, error) {
	owner := f.String("owner", "", "the jobs that the API key `ID` submitted without a key, instead of a KEY")
	return func(args []string) (client.LineKey, error) {
		if (len(args) == 1) == (*owner != "") {
			return client.LineKey{}, misused("name a KEY, or --owner")
		}
		return client.LineKey{Key: strings.Join(args, ""), Owner: *owner}, nil
	}
}

func (p program) linesGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get [KEY]", Short: "Show a key's lines and limits", Args: wants(0, 1, ""),
		Example: "  tierq lines get acme\n  tierq lines get --owner k234567k234567ab",
	}
	key := keyFlag(cmd.Flags())
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		asked, err := key(args)
		if err != nil {
			return err
		}
		lines, limits, err := s.client.LinesOf(ctx, asked)
		if err != nil {
			return err
		}
		if err := s.showLines(lines); err != nil {
			return err
		}
		s.say("%s: %s", wordsOf(asked), s.limitWords(limits))
		return nil
	})
	return cmd
}

// limitWords says what limits a key has.
func (s *session) limitWords(l client.LineLimits) string {
	var all []string
	add := func(on bool, format string, args ...any) {
		if on {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(l.Running > 0, "at most %d run", l.Running)
	add(l.Weight > 1, "weight %d", l.Weight)
	add(l.Rate > 0, "%g start per second, %d at once", l.Rate, max(l.Burst, 1))
	add(l.Waiting > 0, "at most %d wait in a line", l.Waiting)
	add(l.Strict, "one after the other")
	if l.Paused != nil {
		until := "until it is resumed"
		if !l.Paused.Until.IsZero() {
			until = "until " + s.time(l.Paused.Until)
		}
		add(true, "paused %s", until)
	}
	if len(all) == 0 {
		return "no limits"
	}
	return strings.Join(all, ", ")
}

func (p program) linesSetCommand() *cobra.Command {
	var a client.LineLimits
	var pause client.Pause
	var paused, resume bool
	cmd := &cobra.Command{
		Use: "set [KEY]", Short: "Change a key's limits, on every instance at once", Args: wants(0, 1, ""),
		Long: "Change a key's limits, on every instance at once. Limits without a flag stay as they are; 0 takes one\n" +
			"away. They hold over all lines of the key.",
		Example: "  tierq lines set acme --running 5\n  tierq lines set acme --rate 10 --burst 20\n" +
			"  tierq lines set acme --pause --for 1h --reason 'their API is down'\n  tierq lines set acme --resume",
	}
	f := cmd.Flags()
	key := keyFlag(f)
	f.IntVar(&a.Running, "running", 0, "let `n` attempts run at the same time at most; 0: any number")
	f.IntVar(&a.Weight, "weight", 1, "its share `n` of a tier's worker time, beside other keys' weights, 1 to 1000")
	f.Float64Var(&a.Rate, "rate", 0, "let `n` attempts start per second at most, on average; 0: any number")
	f.IntVar(&a.Burst, "burst", 0, "let `n` of them start at once; 0: 1")
	f.IntVar(&a.Waiting, "waiting", 0, "refuse submits once `n` jobs wait in one of its lines; 0: never")
	f.BoolVar(&a.Strict, "strict", false, "run one job after the other, in the order of their submits")
	f.BoolVar(&paused, "pause", false, "start no attempt")
	f.BoolVar(&resume, "resume", false, "end the pause")
	durationVar(f, &pause.For, "for", 0, "with --pause: resume by itself after this `time`; 0: not by itself")
	f.StringVar(&pause.Reason, "reason", "", "with --pause: say `why`")
	cmd.MarkFlagsMutuallyExclusive("pause", "resume")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.talk(func(ctx context.Context, s *session, args []string) error {
			asked, err := key(args)
			if err != nil {
				return err
			}
			_, was, err := s.client.LinesOf(ctx, asked)
			if err != nil {
				return err
			}
			next, named := limitsWith(was, &a, cmd.Flags().Changed)
			if paused {
				next.Paused = &pause
			} else if resume {
				next.Paused = nil
			}
			if next.LineKey = asked; !named && !paused && !resume {
				return misused("name what to change: --running, --weight, --rate, --burst, --waiting, --strict, --pause " +
					"or --resume")
			}
			etag := was.ETag()
			if was.Version == 0 {
				etag = ""
			}
			stored, err := s.client.SetLineLimits(ctx, next, etag)
			if err != nil {
				return err
			}
			if s.format == asJSON {
				return s.document(stored)
			}
			s.say("%s: %s", wordsOf(asked), s.limitWords(stored))
			return nil
		})(cmd, args)
	}
	return cmd
}

// limitsWith returns the limits with those that flags name. named means that at least one flag was given.
func limitsWith(was client.LineLimits, a *client.LineLimits, used func(flag string) bool) (next client.LineLimits,
	named bool) {
	next = was
	for flag, set := range map[string]func(){
		"running": func() { next.Running = a.Running }, "weight": func() { next.Weight = a.Weight },
		"rate": func() { next.Rate = a.Rate }, "burst": func() { next.Burst = a.Burst },
		"waiting": func() { next.Waiting = a.Waiting }, "strict": func() { next.Strict = a.Strict },
	} {
		if used(flag) {
			named = true
			set()
		}
	}
	return next, named
}
