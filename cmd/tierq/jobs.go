package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) jobsCommand() *cobra.Command {
	return group("jobs", "List, show and change jobs", p.jobsListCommand(), p.jobsShowCommand(), p.jobsLogsCommand(),
		p.jobsCancelCommand(),
		p.jobsKillCommand(), p.jobsHastenCommand(),
		p.jobsWhyCommand(), p.artifactCommand())
}

// group returns a command that only holds subcommands.
func group(name, what string, list ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: what}
	cmd.AddCommand(list...)
	return cmd
}

// paged holds the flags of a list.
type paged struct {
	limit  int
	cursor string
	all    bool
}

func (l *paged) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.limit, "limit", 20, "at most `n` of them")
	cmd.Flags().StringVar(&l.cursor, "cursor", "", "go on from this `cursor` of an earlier list")
	cmd.Flags().BoolVar(&l.all, "all", false, "all of them")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
}

// maxPage is the largest page of a server.
const maxPage = 100

// walk prints the pages that the flags ask for. page returns at most limit elements, and the cursor of the next
// page.
func walk[T any](l *paged, s *session, out *list[T], page func(limit int, cursor string) ([]T, string, error)) error {
	if l.limit < 1 && !l.all {
		return misused("--limit %d is less than 1", l.limit)
	}
	cursor := l.cursor
	for {
		limit := maxPage
		if !l.all {
			limit = min(limit, l.limit-out.n)
		}
		items, next, err := page(limit, cursor)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := out.add(item); err != nil {
				return err
			}
		}
		if next == cursor && next != "" {
			return fmt.Errorf("the server repeats one cursor: the list cannot go on")
		}
		if cursor = next; cursor == "" || !l.all && out.n >= l.limit {
			break
		}
	}
	if err := out.end(&cursor); err != nil {
		return err
	}
	switch {
	case cursor != "" && s.format != asJSON:
		s.say("more: --cursor %s", cursor)
	case out.n == 0 && s.readable():
		s.say("none")
	}
	return nil
}

func (p program) jobsListCommand() *cobra.Command {
	var f struct{ status, tier, typ, queue, cause, trace string }
	var l paged
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs: the living first, then the ended, the latest first", Args: noArgs,
		Example: "  tierq jobs list --status failed --tier paid\n  tierq jobs list --status pending --all -o name | xargs " +
			"tierq jobs cancel",
	}
	cmd.Flags().
		StringVar(
			&f.status, "status", "",
			"only in this `status`: scheduled, pending, processing, completed, failed, cancelled; or retrying: failed, and "+
				"tried again",
		)
	cmd.Flags().StringVar(&f.tier, "tier", "", "only of this `tier`")
	cmd.Flags().StringVar(&f.typ, "type", "", "only of this job `type`")
	cmd.Flags().StringVar(&f.queue, "queue", "", "only of this `queue`; main is that of jobs that named none")
	cmd.Flags().StringVar(&f.cause, "cause", "", "only failed for this `cause`, such as HANDLER_ERROR")
	cmd.Flags().StringVar(&f.trace, "trace", "", "only submitted under this trace `id`")
	l.flags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		tier, err := readTier(f.tier)
		if err != nil {
			return err
		}
		filter := client.Filter{
			Status: client.Status(
				strings.ToUpper(f.status),
			), Tier: tier, Type: f.typ, Queue: f.queue, Cause: strings.ToUpper(f.cause), TraceID: f.trace,
		}
		out := newList(s.output, jobName, s.jobColumns()...)
		return walk(&l, s, out, func(limit int, cursor string) ([]client.Job, string, error) {
			filter.Limit = limit
			got, err := s.client.Jobs(ctx, filter, cursor)
			return got.Items, got.Next, err
		})
	})
	return cmd
}

func jobName(j client.Job) string { return j.JobID }

func (s *session) jobColumns() []column[client.Job] {
	return []column[client.Job]{
		{head: "JOB", cell: jobName},
		{head: "STATUS", cell: func(j client.Job) string { return string(j.Status) },
			color: func(j client.Job) string { return statusColors[j.Status] }},
		{head: "TIER", cell: func(j client.Job) string { return string(j.Tier) }},
		{head: "TYPE", cell: func(j client.Job) string { return j.Type }},
		{head: "RETRIES", cell: func(j client.Job) string { return retries(j.RetryCount, j.MaxRetries) }},
		{head: "CREATED", cell: func(j client.Job) string { return s.time(j.CreatedAt) }},
		{head: "DUE", cell: func(j client.Job) string { return s.time(j.RunAt) }},
		{head: "NOTE", cell: func(j client.Job) string { return dash(cut(clean(j.Note), 60)) }},
		{head: "QUEUE", wide: true, cell: func(j client.Job) string { return dash(j.Queue) }},
		{head: "ATTEMPTS", wide: true, cell: func(j client.Job) string { return strconv.Itoa(j.Attempts) }},
		{head: "STARTED", wide: true, cell: func(j client.Job) string { return s.time(j.FirstTriedAt) }},
		{head: "ENDED", wide: true, cell: func(j client.Job) string { return s.time(j.CompletedAt) }},
		{head: "CAUSE", wide: true, cell: func(j client.Job) string { return dash(j.FailureCause) }},
		{head: "ERROR", wide: true, cell: func(j client.Job) string { return dash(cut(clean(j.LastError), 80)) }},
		{head: "TRACE", wide: true, cell: func(j client.Job) string { return dash(j.TraceID) }},
	}
}

func (p program) jobsShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show JOB_ID", Short: "Show a job with its attempts and its result",
		Args: wants(1, 1, "one JOB_ID")}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		job, err := s.client.Job(ctx, args[0])
		if err != nil {
			return err
		}
		return s.showJob(&job)
	})
	return cmd
}

// showJob prints all of a job.
func (s *session) showJob(j *client.Job) error {
	switch {
	case s.format == asName:
		return s.line(j.JobID)
	case !s.readable():
		return s.document(raw(j.Raw, j))
	}
	stop := ""
	if j.CancelRequested && !j.Status.Ended() {
		stop = "cancel requested"
	}
	err := s.fields(
		field{name: "JOB", value: j.JobID}, status(j.Status), field{name: "", value: stop},
		field{name: "TIER", value: string(j.Tier)},
		field{name: "TYPE", value: j.Type}, field{name: "KEY", value: j.Key},
		field{name: "RETRIES", value: retries(j.RetryCount, j.MaxRetries)},
		field{name: "ATTEMPTS", value: strconv.Itoa(j.Attempts)}, field{name: "LIFE", value: life(j.Generation)},
		field{name: "CREATED", value: s.time(j.CreatedAt)}, field{name: "DUE", value: s.moment(j.RunAt)},
		field{name: "EXPIRES", value: s.moment(j.ExpiresAt)},
		field{name: "STARTED", value: s.moment(j.FirstTriedAt)},
		field{name: "ENDED", value: s.moment(j.CompletedAt)}, field{name: "CAUSE", value: j.FailureCause},
		field{name: "ERROR", value: j.LastError},
		field{name: "NOTE", value: j.Note},
		rawField("PAYLOAD", j.Payload), rawField("RESULT", j.Result), field{name: "TRACE", value: j.TraceID},
	)
	for _, r := range j.Reasons {
		if err == nil {
			err = s.fields(
				field{
					name:  strings.ToUpper(r.Action),
					value: fmt.Sprintf("life %d, %s: %s", r.Generation, s.time(r.At), r.Reason),
				},
			)
		}
	}
	if err != nil || len(j.History) == 0 {
		return err
	}
	if err := s.print([]byte("\n")); err != nil {
		return err
	}
	l := newList(s.output, func(client.Attempt) string { return "" },
		column[client.Attempt]{head: "ATTEMPT", cell: func(a client.Attempt) string { return strconv.Itoa(a.Attempt) }},
		column[client.Attempt]{
			head: "LIFE",
			cell: func(a client.Attempt) string { return dash(strings.TrimPrefix(strconv.Itoa(a.Generation), "0")) },
		},
		column[client.Attempt]{head: "OUTCOME", cell: func(a client.Attempt) string { return dash(a.Outcome) }},
		column[client.Attempt]{head: "STARTED", cell: func(a client.Attempt) string { return s.time(a.StartedAt) }},
		column[client.Attempt]{head: "TOOK", cell: took},
		column[client.Attempt]{head: "WORKER", cell: func(a client.Attempt) string { return dash(a.Worker) }},
		column[client.Attempt]{head: "CAUSE", cell: func(a client.Attempt) string { return dash(a.Cause) }},
		column[client.Attempt]{head: "UNTIL", cell: func(a client.Attempt) string { return dash(s.moment(a.Until)) }},
		column[client.Attempt]{head: "ERROR", cell: func(a client.Attempt) string { return dash(cmp.Or(a.Error, a.Reason)) }},
	)
	for _, a := range j.History {
		if err := l.add(a); err != nil {
			return err
		}
	}
	return l.end(nil)
}

func took(a client.Attempt) string {
	if a.StartedAt.IsZero() || a.FinishedAt.IsZero() {
		return "-"
	}
	return seconds(a.FinishedAt.Sub(a.StartedAt).Seconds())
}

// life returns the job's generation if it was requeued, otherwise "".
func life(generation int) string {
	if generation < 2 {
		return ""
	}
	return strconv.Itoa(generation)
}

// raw returns the server's answer if there is one, otherwise v. The answer may have members that this version does
// not know.
func raw(text json.RawMessage, v any) any {
	if len(text) > 0 {
		return text
	}
	return v
}
