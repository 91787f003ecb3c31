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

func (p program) pollCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "poll JOB_ID", Short: "Show how a job stands", Args: wants(1, 1, "one JOB_ID"),
		Long: "Show how a job stands.\n\nWith --wait it waits for the job's end on the server's side: exit code 3 if the " +
			"job FAILED, was CANCELLED or EXPIRED, 4\n" +
			"if it has not ended by then (what is known of it is printed all the same).",
		Example: "  tierq poll 019de340-01fe-7a58-be69-567cd7d6b7d4\n  tierq poll 019de340-01fe-7a58-be69-567cd7d6b7d4 " +
			"--wait 20s -o json",
	}
	var wait time.Duration
	durationVar(cmd.Flags(), &wait, "wait", 0, "wait this `time` for the job's end: 20s, 2m; a bare number is seconds")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		if wait < 0 {
			return misused("--wait is negative")
		}
		var job client.Poll
		var err error
		if wait > 0 {
			job, err = s.await(ctx, args[0], wait)
		} else {
			job, err = s.client.Poll(ctx, args[0])
		}
		if job.JobID != "" {
			err = errors.Join(s.showPoll(job), err)
		}
		return err
	})
	return cmd
}

// await waits for a job's end. When the time limit is reached first, it returns the job's present state and a late
// error.
func (s *session) await(ctx context.Context, id string, bound time.Duration) (client.Poll, error) {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	job, err := s.client.Wait(bounded, id)
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return job, err
	}
	if job, err = s.client.Poll(ctx, id); err != nil {
		return job, err
	}
	if job.Status.Ended() {
		return job, endOf(&job)
	}
	return job, late{fmt.Sprintf("job %s is still %s after %s", id, job.Status, short(bound))}
}

// endOf returns the error of an ended job, which decides the exit code; nil if it is COMPLETED.
func endOf(job *client.Poll) error {
	switch job.Status {
	case client.Failed:
		return &client.JobFailedError{Poll: *job}
	case client.Cancelled:
		return &client.JobCancelledError{Poll: *job}
	case client.Expired:
		return &client.JobExpiredError{Poll: *job}
	}
	return nil
}

// showPoll prints one job's present state.
func (s *session) showPoll(job client.Poll) error {
	if s.format == asName {
		return s.line(job.JobID)
	}
	if !s.readable() {
		return s.document(job)
	}
	trace := ""
	if s.format == asWide {
		trace = job.TraceID
	}
	return s.fields(
		field{name: "JOB", value: job.JobID},
		status(job.Status),
		field{name: "TIER", value: string(job.Tier)},
		field{name: "TYPE", value: job.Type},
		field{name: "RETRIES", value: retries(job.RetryCount, job.MaxRetries)},
		field{
			name:  "ARRIVED",
			value: s.time(job.ArrivedAt),
		},
		field{name: "DUE", value: s.moment(job.RunAt)}, field{name: "EXPIRES", value: s.moment(job.ExpiresAt)},
		field{name: "STARTED", value: s.moment(job.FirstTriedAt)},
		field{name: "ENDED", value: s.moment(job.CompletedAt)},
		field{name: "POSITION", value: position(&job)},
		field{name: "PROGRESS", value: howFar(job.Progress)},
		field{
			name:  "CAUSE",
			value: job.FailureCause,
		},
		field{name: "ERROR", value: job.LastError},
		rawField("RESULT", job.Result),
		field{name: "TRACE", value: trace},
	)
}

// howFar says in words how far a job is; "" if its handler told nothing.
func howFar(p *client.Progress) string {
	if p == nil {
		return ""
	}
	text := strconv.FormatInt(p.Done, 10)
	if p.Total != nil {
		text += " of " + strconv.FormatInt(*p.Total, 10)
	}
	if p.Note != "" {
		text += ", " + p.Note
	}
	return text
}

func retries(n, most int) string { return fmt.Sprintf("%d of %d", n, most) }

// position returns a pending job's place in the queue in words; "" if it has none.
func position(job *client.Poll) string {
	if job.Position == nil {
		return ""
	}
	text := "next"
	if n := *job.Position; n > 0 {
		text = fmt.Sprintf("%d ahead", n)
	}
	if job.ETASeconds != nil {
		text += ", about " + short(time.Duration(*job.ETASeconds)*time.Second)
	}
	return text
}

// wants checks the number of arguments. Its error names the missing one.
func wants(least, most int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s is missing", what)
		case most >= 0 && len(args) > most:
			return fmt.Errorf("unexpected argument %q", args[most])
		}
		return nil
	}
}

// maxIDs is the largest number of job ids for one command.
const maxIDs = 1000
