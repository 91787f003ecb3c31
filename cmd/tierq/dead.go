package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) deadCommand() *cobra.Command {
	return group("dead", "Work on dead letters: jobs that FAILED for good", p.deadListCommand(), p.deadShowCommand(),
		p.deadRequeueCommand(), p.deadDismissCommand(), p.deadExportCommand())
}

// deadFilter holds the flags that select dead letters.
type deadFilter struct{ tier, typ, cause, after, before string }

func (d *deadFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.tier, "tier", "", "only of this `tier`")
	cmd.Flags().StringVar(&d.typ, "type", "", "only of this job `type`")
	cmd.Flags().StringVar(&d.cause, "cause", "", "only failed for this `cause`, such as HANDLER_ERROR")
	cmd.Flags().StringVar(&d.after, "after", "",
		"only those that died at this `moment` (RFC 3339) or later, or at most so long ago: 24h, 7d")
	cmd.Flags().StringVar(&d.before, "before", "",
		"only those that died before this `moment` (RFC 3339), or so long ago: 24h, 7d")
}

func (d *deadFilter) empty() bool { return *d == deadFilter{} }

func (d *deadFilter) read(s *session) (client.Filter, error) {
	tier, err := readTier(d.tier)
	if err != nil {
		return client.Filter{}, err
	}
	after, err := readMoment("after", d.after, s.now())
	if err != nil {
		return client.Filter{}, err
	}
	before, err := readMoment("before", d.before, s.now())
	return client.Filter{Tier: tier, Type: d.typ, Cause: strings.ToUpper(d.cause), From: after, To: before}, err
}

func (p program) deadListCommand() *cobra.Command {
	var d deadFilter
	var l paged
	cmd := &cobra.Command{Use: "list", Short: "List dead letters, the latest first", Args: noArgs,
		Example: "  tierq dead list --cause HANDLER_ERROR --before 24h"}
	d.flags(cmd)
	l.flags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		filter, err := d.read(s)
		if err != nil {
			return err
		}
		return walk(&l, s, newList(s.output, jobName, s.deadColumns()...),
			func(limit int, cursor string) ([]client.Job, string, error) {
				filter.Limit = limit
				got, err := s.client.Dead(ctx, filter, cursor)
				return got.Items, got.Next, err
			})
	})
	return cmd
}

func (s *session) deadColumns() []column[client.Job] {
	return []column[client.Job]{
		{head: "JOB", cell: jobName},
		{head: "TIER", cell: func(j client.Job) string { return string(j.Tier) }},
		{head: "TYPE", cell: func(j client.Job) string { return j.Type }},
		{head: "CAUSE", cell: func(j client.Job) string { return dash(j.FailureCause) }},
		{head: "RETRIES", cell: func(j client.Job) string { return retries(j.RetryCount, j.MaxRetries) }},
		{head: "DIED", cell: func(j client.Job) string { return s.time(j.CompletedAt) }},
		{head: "CREATED", wide: true, cell: func(j client.Job) string { return s.time(j.CreatedAt) }},
		{head: "TRACE", wide: true, cell: func(j client.Job) string { return dash(j.TraceID) }},
		{head: "ERROR", cell: func(j client.Job) string {
			if s.format == asTable {
				return dash(cut(clean(j.LastError), 60))
			}
			return dash(j.LastError)
		}},
	}
}

func (p program) deadShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show JOB_ID", Short: "Show a dead letter with its payload and attempts", Args: wants(1, 1, "one JOB_ID"),
		Long: "Show a dead letter with its payload and attempts. A job that is not FAILED is no dead letter: exit code 6.",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		job, err := s.client.Job(ctx, args[0])
		if err != nil {
			return err
		}
		if job.Status != client.Failed {
			return fmt.Errorf("no dead letter: job %s is %s: %w", job.JobID, job.Status, client.ErrNotFound)
		}
		return s.showJob(&job)
	})
	return cmd
}

func (p program) deadDismissCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "dismiss JOB_ID...", Short: "Take dead letters off the list", Args: wants(1, maxIDs, "a JOB_ID"),
		Long: "Take dead letters off the list, without a new life for their jobs. The jobs stay FAILED, with their history, " +
			"and\ncan still be requeued.",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` that are kept with the job")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		return s.each(ctx, args, "dismissed", func(id string) (done, error) {
			return done{JobID: id, Dismissed: true}, s.client.Dismiss(ctx, id, reason)
		})
	})
	return cmd
}

func (p program) deadExportCommand() *cobra.Command {
	var d deadFilter
	cmd := &cobra.Command{
		Use: "export", Short: "Print dead letters with their payloads, a JSON object a line", Args: noArgs,
		Long: "Print dead letters with their payloads: a JSON object a line, with -o json a list. An export that breaks " +
			"off ends with an error, and\n" +
			"leaves no --file.",
		Example: "  tierq dead export --type SEND_EMAIL --file dead.ndjson",
	}
	d.flags(cmd)
	file := cmd.Flags().String("file", "", "write to this `path` instead of standard output; no file may be there")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		filter, err := d.read(s)
		if err != nil {
			return err
		}
		lines, err := s.client.DeadExport(ctx, filter)
		if err != nil {
			return err
		}
		defer lines.Close()
		if *file == "" {
			if err := s.export(s.output, lines); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			return nil
		}
		r, w := io.Pipe()
		out := *s.output
		out.w = w
		go func() { w.CloseWithError(s.export(&out, lines)) }()
		if _, err = save(*file, r, false); err != nil {
			return errors.Join(fmt.Errorf("export: %w", err), r.Close())
		}
		s.hint("written to %s", *file)
		return nil
	})
	return cmd
}

// letter is an unchanged line of an export.
type letter struct{ json.RawMessage }

func (l letter) id() string {
	var v struct {
		JobID string `json:"jobId"`
	}
	_ = json.Unmarshal(l.RawMessage, &v) // a line without an id has no name
	return v.JobID
}

// export prints the lines of an export in the requested format.
func (s *session) export(to *output, from io.Reader) error {
	if to.readable() {
		lines := *to
		lines.format = asNDJSON
		to = &lines
	}
	l := newList(to, letter.id)
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			if err := l.add(letter{line}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return l.end(nil)
		case err != nil:
			return err
		}
	}
}
