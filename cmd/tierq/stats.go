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

// leastWatch is the shortest time between two readings, because each costs the server some work.
const leastWatch = 200 * time.Millisecond

func (p program) statsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats", Short: "Show what the server is doing", Args: noArgs,
		Long: "Show what the server is doing: what waits, runs and ends in each tier, with rates and times of the last hour.\n\n" +
			"With --watch again and again until it is stopped; on a terminal in place.",
		Example: "  tierq stats\n  tierq stats --watch 2s\n  tierq stats -o json",
	}
	var every time.Duration
	durationVar(cmd.Flags(), &every, "watch", 0, "show it again after each such `time`: 2s; a bare number is seconds")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		if cmd.Flags().Changed("watch") && every < leastWatch {
			return misused("--watch is at least %s", leastWatch)
		}
		got, err := s.client.Stats(ctx)
		if err != nil {
			return err
		}
		if every == 0 {
			return s.showStats(&got)
		}
		return s.watchStats(ctx, every, &got)
	})
	return cmd
}

// watchStats prints the statistics repeatedly until ctx ends. It continues after a short outage of the server.
func (s *session) watchStats(ctx context.Context, every time.Duration, got *client.Stats) error {
	inPlace := s.readable() && s.isTTY(s.stdout)
	lines := *s.output
	if lines.format == asJSON {
		lines.format = asNDJSON // many documents are not valid JSON
	}
	s.output = &lines
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if got != nil && inPlace {
			if err := s.print([]byte("\x1b[H\x1b[2J")); err != nil {
				return err
			}
		}
		if got != nil {
			if err := s.showStats(got); err != nil {
				return err
			}
		}
		if got != nil && s.readable() && !inPlace {
			if err := s.print([]byte("\n")); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		next, err := s.client.Stats(ctx)
		got = &next
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, client.ErrUnavailable) {
				return err
			}
			got = nil
			s.say("%s", brief(err))
		}
	}
}

func (s *session) showStats(st *client.Stats) error {
	if !s.readable() {
		if s.format == asName {
			return s.names(st.Tiers)
		}
		return s.document(raw(st.Raw, st))
	}
	type tier = client.TierStats
	number := func(head string, of func(tier) int64, wide bool) column[tier] {
		return column[tier]{head: head, wide: wide, cell: func(t tier) string { return strconv.FormatInt(of(t), 10) }}
	}
	duration := func(head string, of func(tier) float64, wide bool) column[tier] {
		return column[tier]{head: head, wide: wide, cell: func(t tier) string { return seconds(of(t)) }}
	}
	rate := func(head string, of func(tier) float64) column[tier] {
		return column[tier]{head: head, cell: func(t tier) string { return perSecond(of(t)) }}
	}
	l := newList(s.output, func(t tier) string { return string(t.Tier) },
		column[tier]{head: "TIER", cell: func(t tier) string { return string(t.Tier) }},
		number("WAITING", func(t tier) int64 { return t.Depth }, false),
		number("SCHEDULED", func(t tier) int64 { return t.Scheduled }, false),
		number("RUNNING", func(t tier) int64 { return t.InFlight }, false),
		duration("OLDEST", func(t tier) float64 { return t.OldestAgeSeconds }, false),
		rate("IN", func(t tier) float64 { return t.SubmittedPerSecond }),
		rate("OUT", func(t tier) float64 { return t.FinishedPerSecond }),
		duration("WAIT P50", func(t tier) float64 { return t.WaitSeconds.P50 }, true),
		duration("WAIT P95", func(t tier) float64 { return t.WaitSeconds.P95 }, false),
		duration("WAIT P99", func(t tier) float64 { return t.WaitSeconds.P99 }, true),
		duration("RUN P50", func(t tier) float64 { return t.RunSeconds.P50 }, true),
		duration("RUN P95", func(t tier) float64 { return t.RunSeconds.P95 }, false),
		duration("RUN P99", func(t tier) float64 { return t.RunSeconds.P99 }, true),
		number("SUBMITTED", func(t tier) int64 { return t.Submitted }, true),
		number("COMPLETED", func(t tier) int64 { return t.Completed }, false),
		number("FAILED", func(t tier) int64 { return t.Failed }, false),
		number("CANCELLED", func(t tier) int64 { return t.Cancelled }, true),
		number("EXPIRED", func(t tier) int64 { return t.Expired }, true),
		number("RETRIED", func(t tier) int64 { return t.Retried }, true),
		number("REFUSED", func(t tier) int64 { return t.Refused }, false),
	)
	for _, t := range st.Tiers {
		if err := l.add(t); err != nil {
			return err
		}
	}
	if err := l.end(nil); err != nil {
		return err
	}
	if err := s.print([]byte("\n")); err != nil {
		return err
	}
	return s.fields(overview(st)...)
}

func (s *session) names(tiers []client.TierStats) error {
	for _, t := range tiers {
		if err := s.line(string(t.Tier)); err != nil {
			return err
		}
	}
	return nil
}

// overview returns the statistics that belong to no single tier.
func overview(st *client.Stats) []field {
	slots, running, stuck := 0, 0, 0
	for _, w := range st.Workers {
		slots, running, stuck = slots+w.Slots, running+w.Running, stuck+w.Stuck
	}
	gate := field{name: "gate", value: "open", color: "32"}
	if !st.Gate.Open {
		gate.value, gate.color = "closed: "+dash(st.Gate.Reason), "31"
	}
	fields := []field{
		{name: "capacity", value: fmt.Sprintf("%d of %d used", st.Capacity.Used, st.Capacity.Limit)},
		gate,
		{name: "outbox", value: fmt.Sprintf("%d jobs, %d bytes", st.Outbox.Jobs, st.Outbox.Bytes)},
		{name: "workers", value: fmt.Sprintf("%d with %d slots, %d running, %d stuck", len(st.Workers), slots, running,
			stuck)},
		{name: "ended", value: perSecond(st.DrainPerSecond)},
	}
	if len(st.Queues) < 2 {
		return fields // main alone is what the tiers say
	}
	for _, q := range st.Queues {
		is := fmt.Sprintf("%d ready, %d scheduled, %d running; processes that take its jobs: %d", q.Depth, q.Scheduled,
			q.InFlight, q.Workers)
		if !q.Paused.IsZero() {
			is += "; paused"
		}
		fields = append(fields, field{name: "queue " + q.Queue, value: is})
	}
	return fields
}

func perSecond(n float64) string {
	switch {
	case n == 0:
		return "0/s"
	case n < 0.1:
		return "<0.1/s"
	case n < 10:
		return fmt.Sprintf("%.1f/s", n)
	}
	return fmt.Sprintf("%.0f/s", n)
}
