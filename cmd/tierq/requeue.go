package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// A bulk requeue goes in steps, so that it can be seen and stopped. The server brings back so many a second, by default 500.
const (
	requeueStep    = 500
	requeueTimeout = 10 * time.Minute // of a step, at a rate of one a second
)

// requeued is what a requeue by filter did.
type requeued struct {
	Matched  int  `json:"matched"`
	Requeued int  `json:"requeued"`
	DryRun   bool `json:"dryRun,omitempty"`
}

func (p program) deadRequeueCommand() *cobra.Command {
	var d deadFilter
	var limit int
	var all, dryRun, yes bool
	var reason string
	cmd := &cobra.Command{
		Use: "requeue [JOB_ID...]", Short: "Give dead letters a new life", Args: wants(0, maxIDs, ""),
		Long: "Give dead letters a new life: the same job, with a fresh budget of retries. Either by their ids, or all that pass the filters, the latest\n" +
			"first, and no faster than the server's TIERQ_REQUEUE_RATE.\n\nMore than one by filters asks on a terminal, and needs --yes elsewhere.",
		Example: "  tierq dead requeue 019de340-01fe-7a58-be69-567cd7d6b7d4\n  tierq dead requeue --cause HANDLER_ERROR --type SEND_EMAIL --dry-run\n" +
			"  tierq dead requeue --tier paid --limit 100 --yes",
	}
	d.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so `many` (default: all that pass)")
	cmd.Flags().BoolVar(&all, "all", false, "without a filter: every dead letter")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` that are kept with the jobs")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, ids []string) error {
		filtered := !d.empty() || limit != 0 || all
		switch {
		case limit < 0:
			return misused("--limit is negative")
		case len(ids) > 0 && (filtered || dryRun):
			return misused("either JOB_IDs or filters")
		case len(ids) > 0:
			return s.each(ctx, ids, "requeued", func(id string) (done, error) {
				return done{JobID: id, Requeued: true}, s.client.RequeueBecause(ctx, id, reason)
			})
		case d.empty() && !all:
			return misused("which ones? JOB_IDs, a filter (--tier, --type, --cause, --after, --before), or --all")
		}
		filter, err := d.read(s)
		if err != nil {
			return err
		}
		return s.requeue(ctx, filter, limit, dryRun, yes, reason)
	}, client.WithTimeout(requeueTimeout))
	return cmd
}

func (s *session) requeue(ctx context.Context, filter client.Filter, limit int, dryRun, yes bool, reason string) error {
	if err := s.bound(ctx, &filter); err != nil {
		return err
	}
	var r requeued
	if !filter.To.IsZero() {
		counted, err := s.client.RequeueDead(ctx, filter, requeueStep, true)
		if err != nil {
			return err
		}
		r.Matched = counted.Matched
	}
	left := r.Matched
	if limit > 0 {
		left = min(left, limit)
	}
	if r.DryRun = dryRun; dryRun || left == 0 {
		return s.told(r)
	}
	if left > 1 && !yes {
		if err := s.confirm(ctx, left); err != nil {
			return err
		}
	}
	shown := s.count(int64(left), func() string { return "requeueing " })
	defer shown.end()
	for left > 0 {
		step, err := s.client.RequeueDeadBecause(ctx, filter, min(left, requeueStep), false, reason)
		if err != nil {
			shown.end()
			s.say("%d requeued before it ended", r.Requeued)
			return err
		}
		if step.Requeued == 0 {
			break // what is left was requeued by somebody else, or cannot be
		}
		r.Requeued += step.Requeued
		left -= step.Requeued
		shown.add(step.Requeued)
	}
	shown.end()
	return s.told(r)
}

// bound sets the filter's upper end to the latest dead letter there is, by the server's own clock: what dies again during the requeue is not
// requeued again. It stays zero if there is none.
func (s *session) bound(ctx context.Context, filter *client.Filter) error {
	for job, err := range s.client.AllDead(ctx, *filter) {
		if err != nil {
			return err
		}
		if last := job.CompletedAt.Add(time.Millisecond); filter.To.IsZero() || last.Before(filter.To) {
			filter.To = last
		}
		return nil
	}
	filter.To = time.Time{}
	return nil
}

func (s *session) told(r requeued) error {
	switch {
	case !s.readable():
		return s.document(r)
	case r.DryRun:
		return s.line(fmt.Sprintf("%d match", r.Matched))
	}
	return s.line(fmt.Sprintf("%d of %d requeued", r.Requeued, r.Matched))
}

// confirm asks on a terminal; elsewhere nobody could answer.
func (s *session) confirm(ctx context.Context, n int) error {
	if s.stdin == nil || !s.isTTY(s.stdin) || !s.isTTY(s.stderr) {
		return misused("%d dead letters match, and nobody can be asked here: say --yes, or look with --dry-run", n)
	}
	fmt.Fprintf(s.stderr, "Requeue %d dead letters? [y/N] ", n)
	answer, _ := bufio.NewReader(s.stdin).ReadString('\n') // an answer that breaks off is no
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}
