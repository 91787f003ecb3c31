package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) flowCommand() *cobra.Command {
	return group("flow", "Submit jobs that wait for each other, and follow them", p.flowSubmitCommand(),
		p.flowShowCommand(), p.flowListCommand(), p.flowCancelCommand())
}

// maxRequestBody bounds the file of a flow or of a batch: the server takes no more.
const maxRequestBody = 16 << 20

// requestBody reads the file of a flow or of a batch.
func (s *session) requestBody(file string) ([]byte, error) {
	if file == "" {
		return nil, misused("--file is missing")
	}
	in, err := s.input(file, false)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	body, err := io.ReadAll(io.LimitReader(in, maxRequestBody+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return body, nil
}

func (p program) flowSubmitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "submit", Short: "Submit a flow", Args: noArgs,
		Long: "Submit a flow, as a whole or not at all, and print its id. The file has what POST /api/flows takes:\n" +
			"{\"name\": ..., \"jobs\": {NAME: {\"type\", \"payload\", \"tier\", \"after\": [NAME, ...], \"onFailure\", ...}}}.",
		Example: "  tierq flow submit --file picture.json --wait\n" +
			"  tierq flow submit -f picture.json --idempotency-key picture-4711",
	}
	file := cmd.Flags().StringP("file", "f", "", "the flow at this `path`; - for standard input")
	key := cmd.Flags().String("idempotency-key", "", "`key` under which the same flow again is the same flow")
	wait := cmd.Flags().Bool("wait", false, "wait for its end; exit code 3 if it did not complete")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		body, err := s.requestBody(*file)
		if err != nil {
			return err
		}
		made, err := s.client.SubmitFlowJSON(ctx, body, *key)
		if err != nil {
			return err
		}
		if !*wait {
			if s.format == asJSON || s.format == asNDJSON {
				return s.document(made)
			}
			return s.line(made.FlowID)
		}
		f, err := s.client.WaitFlow(ctx, made.FlowID)
		if f.FlowID != "" {
			if shown := s.showFlow(&f); shown != nil {
				return shown
			}
		}
		return err
	})
	return cmd
}

func (p program) flowShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show FLOW_ID", Short: "Show a flow and its jobs", Args: wants(1, 1, "a FLOW_ID"),
		Example: "  tierq flow show 019de340-01fe-7a58-be69-567cd7d6b7d4",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		f, err := s.client.Flow(ctx, args[0])
		if err != nil {
			return err
		}
		return s.showFlow(&f)
	})
	return cmd
}

// showFlow prints a flow: the server's answer with --output json, else its jobs.
func (s *session) showFlow(f *client.Flow) error {
	if s.format == asJSON || s.format == asNDJSON {
		return s.document(f.Raw)
	}
	l := newList(s.output, func(j client.FlowJobInfo) string { return j.JobID },
		column[client.FlowJobInfo]{head: "NAME", cell: func(j client.FlowJobInfo) string { return j.Name }},
		column[client.FlowJobInfo]{head: "STATUS", cell: func(j client.FlowJobInfo) string { return string(j.Status) },
			color: func(j client.FlowJobInfo) string { return statusColors[j.Status] }},
		column[client.FlowJobInfo]{head: "TYPE", cell: func(j client.FlowJobInfo) string { return j.Type }},
		column[client.FlowJobInfo]{head: "AFTER", cell: func(j client.FlowJobInfo) string {
			return dash(strings.Join(j.After, ","))
		}},
		column[client.FlowJobInfo]{head: "ON FAILURE", wide: true, cell: func(j client.FlowJobInfo) string {
			return string(j.OnFailure)
		}},
		column[client.FlowJobInfo]{head: "JOB_ID", cell: func(j client.FlowJobInfo) string { return j.JobID }},
	)
	for _, j := range f.Jobs {
		if err := l.add(j); err != nil {
			return err
		}
	}
	if err := l.end(nil); err != nil {
		return err
	}
	if s.readable() {
		s.say("%s %s: %s", f.FlowID, f.Name, flowWords(f))
	}
	return nil
}

// flowWords says how a flow stands.
func flowWords(f *client.Flow) string {
	n := &f.Counts
	return fmt.Sprintf("%s, %d of %d completed", f.State, n.Completed,
		n.Waiting+n.Living+n.Completed+n.Failed+n.Cancelled+n.Expired)
}

func (p program) flowListCommand() *cobra.Command {
	var l paged
	cmd := &cobra.Command{
		Use: "list", Short: "List flows, the latest first", Args: noArgs,
		Example: "  tierq flow list --state stuck",
	}
	state := cmd.Flags().String("state", "", "only in this `state`: running, stuck, completed, failed, cancelled")
	l.flags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		number := func(n int) string { return strconv.Itoa(n) }
		out := newList(s.output, func(f client.Flow) string { return f.FlowID },
			column[client.Flow]{head: "FLOW_ID", cell: func(f client.Flow) string { return f.FlowID }},
			column[client.Flow]{head: "NAME", cell: func(f client.Flow) string { return dash(f.Name) }},
			column[client.Flow]{head: "STATE", cell: func(f client.Flow) string { return string(f.State) }},
			column[client.Flow]{head: "WAITING", cell: func(f client.Flow) string { return number(f.Counts.Waiting) }},
			column[client.Flow]{head: "LIVING", cell: func(f client.Flow) string { return number(f.Counts.Living) }},
			column[client.Flow]{head: "COMPLETED", cell: func(f client.Flow) string { return number(f.Counts.Completed) }},
			column[client.Flow]{head: "FAILED", cell: func(f client.Flow) string { return number(f.Counts.Failed) }},
			column[client.Flow]{head: "CREATED", cell: func(f client.Flow) string { return s.time(f.CreatedAt) }},
		)
		filter := client.FlowFilter{State: client.FlowState(strings.ToUpper(*state))}
		return walk(&l, s, out, func(limit int, cursor string) ([]client.Flow, string, error) {
			got, err := s.client.Flows(ctx, filter, cursor, limit)
			return got.Items, got.Next, err
		})
	})
	return cmd
}

func (p program) flowCancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel FLOW_ID", Short: "Cancel all jobs of a flow that have not ended", Args: wants(1, 1, "a FLOW_ID"),
		Long: "Cancel all jobs of a flow that have not ended. Running jobs are told to stop. " +
			"A repeat ends the others.",
		Example: "  tierq flow cancel 019de340-01fe-7a58-be69-567cd7d6b7d4 --reason 'ordered twice'",
	}
	reason := cmd.Flags().String("reason", "", "why, in `words` that are kept with the jobs")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		f, err := s.client.CancelFlow(ctx, args[0], *reason)
		if err != nil {
			return err
		}
		if !s.readable() {
			return s.document(f.Raw)
		}
		return s.line(f.FlowID + "  " + flowWords(&f))
	})
	return cmd
}
