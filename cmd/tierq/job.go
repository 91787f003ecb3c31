package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// done is the result for one of several jobs that an operator acts on.
type done struct {
	JobID     string        `json:"jobId"`
	Status    client.Status `json:"status,omitempty"`
	Requested bool          `json:"cancelRequested,omitempty"`
	Requeued  bool          `json:"requeued,omitempty"`
	Dismissed bool          `json:"dismissed,omitempty"`
	Error     string        `json:"error,omitempty"`
}

func (d done) text() string {
	switch {
	case d.Error != "":
		return d.Error
	case d.Requested:
		return "the job was told to stop: it will end CANCELLED"
	case d.Requeued:
		return "requeued"
	case d.Dismissed:
		return "dismissed"
	}
	return string(d.Status)
}

// each acts on jobs one after the other, and prints their results. A failure does not stop it; ctx does.
func (s *session) each(ctx context.Context, ids []string, what string, act func(id string) (done, error)) error {
	l := newList(s.output, func(d done) string {
		if d.Error != "" {
			return ""
		}
		return d.JobID
	}, column[done]{head: "JOB", cell: func(d done) string { return d.JobID }},
		column[done]{head: "OUTCOME", cell: done.text})
	if len(ids) == 1 {
		d, err := act(ids[0])
		switch {
		case err != nil:
			return err
		case s.format == asJSON:
			return s.document(d)
		}
		if err := l.add(d); err != nil {
			return err
		}
		return l.end(nil)
	}
	wrong := 0
	var first error
	for _, id := range ids {
		d, err := act(id)
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			if wrong++; wrong == 1 {
				first = err
			}
			d = done{JobID: id, Error: brief(err)}
			if s.format == asName {
				s.say("%s: %s", id, d.Error)
			}
		}
		if err := l.add(d); err != nil {
			return err
		}
	}
	if err := l.end(nil); err != nil {
		return err
	}
	if wrong > 0 {
		return summed{fmt.Sprintf("%d of %d jobs were not %s", wrong, len(ids), what), first}
	}
	return nil
}

func (p program) jobsCancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel JOB_ID...", Short: "Cancel jobs", Args: wants(1, maxIDs, "a JOB_ID"),
		Long: "Cancel jobs. One that waits is CANCELLED at once. One that runs is told to stop: it will end CANCELLED, " +
			"never COMPLETED.",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` that are kept with the job")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		return s.each(ctx, args, "cancelled", func(id string) (done, error) {
			c, err := s.client.CancelBecause(ctx, id, reason)
			return done{JobID: c.JobID, Status: c.Status, Requested: c.Requested}, err
		})
	})
	return cmd
}

func (p program) jobsKillCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "kill JOB_ID...", Short: "Make waiting jobs dead letters", Args: wants(1, maxIDs, "a JOB_ID"),
		Long: "Make dead letters of jobs that wait, or are scheduled: each is FAILED at once, with the cause KILLED, and can be " +
			"requeued.\nA job that runs stays as it is: cancel it.",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` that become the job's error")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		return s.each(ctx, args, "killed", func(id string) (done, error) {
			return done{JobID: id, Status: client.Failed}, s.client.Kill(ctx, id, reason)
		})
	})
	return cmd
}

func (p program) jobsHastenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hasten JOB_ID...", Short: "Make scheduled jobs ready now", Args: wants(1, maxIDs, "a JOB_ID"),
		Long: "Make jobs ready now that are delayed, or wait after a failure: each is PENDING at once, at its own place.",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		return s.each(ctx, args, "hastened", func(id string) (done, error) {
			return done{JobID: id, Status: client.Pending}, s.client.Hasten(ctx, id)
		})
	})
	return cmd
}

func (p program) jobsWhyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "why JOB_ID", Short: "Explain why a job is still waiting", Args: wants(1, 1, "one JOB_ID")}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		w, err := s.client.Why(ctx, args[0])
		switch {
		case err != nil:
			return err
		case s.format == asName:
			return s.line(w.JobID)
		case !s.readable():
			return s.document(raw(w.Raw, w))
		}
		gate := "open"
		if !w.Gate.Open {
			gate = strings.TrimSuffix("closed: "+w.Gate.Reason, ": ")
		}
		return s.fields(
			field{name: "JOB", value: w.JobID}, status(w.Status), field{name: "WHY", value: strings.Join(w.Reasons, "; ")},
			field{name: "POSITION", value: position(&client.Poll{Position: w.Position, ETASeconds: w.ETASeconds})},
			field{name: "AHEAD", value: byTier(w.AheadByTier)}, field{name: "RUNNING", value: byTier(w.RunningByTier)},
			field{name: "FREE SLOTS", value: strconv.Itoa(w.FreeSlots)},
			field{name: "WORKERS", value: strconv.Itoa(w.Workers)}, field{name: "GATE", value: gate},
			field{name: "DUE", value: s.moment(w.RunAt)},
		)
	})
	return cmd
}

func byTier(counts map[client.Tier]int64) string {
	var parts []string
	for _, tier := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, string(tier)+" "+strconv.FormatInt(counts[tier], 10))
	}
	return strings.Join(parts, ", ")
}
