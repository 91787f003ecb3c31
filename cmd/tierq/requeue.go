package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// A bulk requeue goes in steps, so that a person can follow and stop it. The server's rate is 500 per second by
// default.
const (
	requeueStep    = 500
	requeueTimeout = 10 * time.Minute // of a step, enough for a rate of one per second
)

// requeued is the result of a requeue by filter.
type requeued struct {
	Matched  int  `json:"matched"`
	OrMore   bool `json:"matchedOrMore,omitempty"` // the server counts up to countedTo: there may be more than Matched
	Requeued int  `json:"requeued"`
	DryRun   bool `json:"dryRun,omitempty"`
}

func (p program) deadRequeueCommand() *cobra.Command {
	var d deadFilter
	var limit int
	var all, dryRun, yes, cascade bool
	var reason string
	cmd := &cobra.Command{
		Use: "requeue [JOB_ID...]", Short: "Requeue dead letters", Args: wants(0, maxIDs, ""),
		Long: "Requeue dead letters: each runs again as the same job, with all its retries. Name their ids, or filters:\n" +
			"they requeue all that match, the latest first, at most TIERQ_REQUEUE_RATE of the server a second.\n\n" +
			"For more than one match tierq asks on a terminal; elsewhere add --yes. It requeues all that were dead when it\n" +
			"began, up to --limit. A requeue that was stopped says how many it has done; the same command again does the\n" +
			"rest.",
		Example: "  tierq dead requeue 019de340-01fe-7a58-be69-567cd7d6b7d4\n  tierq dead requeue --cause HANDLER_ERROR " +
			"--type SEND_EMAIL --dry-run\n" +
			"  tierq dead requeue --tier paid --limit 100 --yes",
	}
	d.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "at most `n` of them (default: all that pass)")
	cmd.Flags().BoolVar(&all, "all", false, "without a filter: every dead letter")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` that are kept with the jobs")
	cmd.Flags().BoolVar(&cascade, "cascade", false,
		"with JOB_IDs of flows: bring back the jobs that were cancelled because of them, too")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, ids []string) error {
		filtered := !d.empty() || limit != 0 || all
		switch {
		case limit < 0:
			return misused("--limit is negative")
		case len(ids) > 0 && (filtered || dryRun):
			return misused("either JOB_IDs or filters")
		case len(ids) == 0 && cascade:
			return misused("--cascade needs JOB_IDs")
		case len(ids) > 0:
			return s.each(ctx, ids, "requeued", func(id string) (done, error) {
				if cascade {
					return done{JobID: id, Requeued: true}, s.client.RequeueCascade(ctx, id, reason)
				}
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

// requeue requeues dead letters step by step, until none matches the filter or limit is reached (0 = no limit).
func (s *session) requeue(ctx context.Context, filter client.Filter, limit int, dryRun, yes bool, reason string) error {
	if err := s.bound(ctx, &filter); err != nil {
		return err
	}
	r := requeued{DryRun: dryRun}
	if !filter.To.IsZero() {
		counted, err := s.client.RequeueDead(ctx, filter, requeueStep, true)
		if err != nil {
			return err
		}
		r.count(counted.Matched)
	}
	if dryRun || r.Matched == 0 {
		return s.told(r, limit)
	}
	if n := r.most(limit); n != "1" && !yes {
		if err := s.confirm(ctx, n); err != nil {
			return err
		}
	}
	total := int64(-1)
	if n, err := strconv.ParseInt(r.most(limit), 10, 64); err == nil {
		total = n
	}
	var done atomic.Int64
	shown := s.count(total, func() string {
		if total < 0 {
			return fmt.Sprintf("%d requeued ", done.Load())
		}
		return "requeueing "
	})
	defer shown.end()
	for {
		size := r.step(limit)
		if size == 0 {
			break
		}
		step, err := s.client.RequeueDeadBecause(ctx, filter, size, false, reason)
		if err != nil {
			shown.end()
			s.say("%d requeued before it ended; the same command again goes on with the rest", r.Requeued)
			return err
		}
		if step.Requeued == 0 {
			break // the rest was requeued by another operator, or cannot be requeued
		}
		if r.OrMore {
			r.count(r.Requeued + step.Matched)
			r.OrMore = step.Matched >= countedTo
		}
		r.Requeued += step.Requeued
		done.Add(int64(step.Requeued))
		shown.add(step.Requeued)
	}
	shown.end()
	return s.told(r, limit)
}

// countedTo is the largest count of dead letters that a server returns.
const countedTo = 10_000

// count records how many dead letters match.
func (r *requeued) count(matched int) { r.Matched, r.OrMore = matched, matched >= countedTo }

// step returns the number of dead letters in the next step; 0 = the requeue is finished.
func (r *requeued) step(limit int) int {
	size := requeueStep
	if limit > 0 {
		size = min(size, limit-r.Requeued)
	}
	if !r.OrMore {
		size = min(size, r.Matched-r.Requeued)
	}
	return max(size, 0)
}

// most returns the largest number of dead letters that a requeue takes, in words.
func (r *requeued) most(limit int) string {
	switch {
	case limit > 0 && (limit <= r.Matched || r.OrMore):
		return strconv.Itoa(limit)
	case r.OrMore:
		return strconv.Itoa(r.Matched) + " or more"
	}
	return strconv.Itoa(r.Matched)
}

// bound sets the filter's upper end to the time of the latest dead letter, by the server's clock. So a job that
// dies again during the requeue is not requeued again. Without a dead letter the filter stays unchanged.
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

// told prints the result of a requeue.
func (s *session) told(r requeued, limit int) error {
	switch {
	case !s.readable():
		return s.document(r)
	case r.DryRun:
		return s.line(r.most(0) + " match")
	case r.OrMore && r.Requeued == limit:
		return s.line(fmt.Sprintf("%d requeued; more are left", r.Requeued))
	}
	return s.line(fmt.Sprintf("%d of %d requeued", r.Requeued, r.Matched))
}

// confirm asks a person on a terminal. Without a terminal it returns an error.
func (s *session) confirm(ctx context.Context, n string) error {
	err := s.ask(ctx, "Requeue "+n+" dead letters?")
	switch {
	case errors.Is(err, errNoTerminal):
		return misused("%s dead letters match, and tierq cannot ask without a terminal: add --yes, or "+
			"count them with --dry-run", n)
	case errors.Is(err, errNotConfirmed):
		return errors.New("not confirmed: no dead letter was requeued")
	}
	return err
}

var (
	errNoTerminal   = errors.New("tierq cannot ask without a terminal")
	errNotConfirmed = errors.New("not confirmed")
)

// ask asks a person on a terminal a question, and returns nil if the answer is yes. Other errors than errNoTerminal and
// errNotConfirmed are those of ctx.
func (s *session) ask(ctx context.Context, question string) error {
	if s.stdin == nil || !s.isTTY(s.stdin) || !s.isTTY(s.stderr) {
		return errNoTerminal
	}
	fmt.Fprintf(s.stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(s.stdin).ReadString('\n') // an incomplete answer counts as no
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}
