package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) batchCommand() *cobra.Command {
	return group("batch", "Run one job when many others have ended", p.batchCreateCommand(), p.batchSubmitCommand(),
		p.batchSealCommand(), p.batchShowCommand(), p.batchMembersCommand(), p.batchListCommand(), p.batchCancelCommand())
}

const someBatch = "019de340-01fe-7a58-be69-567cd7d6b7d4"

func (p program) batchCreateCommand() *cobra.Command {
	var b client.NewBatch
	var then client.Then
	var tier, thenTier, data, on string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an open batch", Args: wants(1, 1, "a NAME"),
		Long: "Make an open batch and print its id. Add jobs with tierq submit --batch, then seal it. When all of them\n" +
			"have ended, the job of --then runs.",
		Example: "  tierq batch create 'import 7' --tier paid --then SEND_EMAIL --data @mail.json",
	}
	f := cmd.Flags()
	f.StringVar(&tier, "tier", "", "`tier` of the job at the end, and of the callback (default: unpaid)")
	f.StringVar(&then.Type, "then", "", "job `type` that runs at the end")
	f.StringVar(&data, "data", "", "its payload: `JSON`, @file, or - for standard input")
	f.StringVar(&thenTier, "then-tier", "", "its `tier`, if that is another")
	f.StringVar(&then.Queue, "queue", "", "let it wait in this `queue` (default: main)")
	f.StringVar(&on, "on", "", "run it `when`: finished (all have ended, the default) or succeeded (all are COMPLETED)")
	f.StringVar(&b.CallbackURL, "callback", "", "`URL` that is told of the end by a signed POST")
	f.StringVar(&b.IdempotencyKey, "idempotency-key", "", "`key` under which the same batch again is the same batch")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) (err error) {
		b.Name = args[0]
		if b.Tier, err = readTier(tier); err != nil {
			return err
		}
		if then.Tier, err = readTier(thenTier); err != nil {
			return err
		}
		if then.Type == "" && (data != "" || on != "" || thenTier != "" || then.Queue != "") {
			return misused("--data, --on, --then-tier and --queue need --then")
		}
		if then.Type != "" {
			then.On, b.Then = client.ThenOn(on), &then
			if data != "" {
				if then.Payload, err = s.readData(data); err != nil {
					return err
				}
			}
		}
		made, err := s.client.CreateBatch(ctx, b)
		if err != nil {
			return err
		}
		if s.format == asJSON || s.format == asNDJSON {
			return s.document(made.Raw)
		}
		return s.line(made.BatchID)
	})
	return cmd
}

func (p program) batchSubmitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "submit", Short: "Make a batch together with its jobs", Args: noArgs,
		Long: "Make a batch together with its first jobs, as a whole or not at all, and print its id. The file has what\n" +
			"POST /api/batches takes: {\"name\": ..., \"then\": {...}, \"jobs\": [{\"type\", \"payload\", \"tier\", ...}], " +
			"\"sealed\": true}.",
		Example: "  tierq batch submit --file import.json --wait\n" +
			"  tierq batch submit -f import.json --idempotency-key import-7",
	}
	file := cmd.Flags().StringP("file", "f", "", "the batch at this `path`; - for standard input")
	key := cmd.Flags().String("idempotency-key", "", "`key` under which the same batch again is the same batch")
	wait := cmd.Flags().Bool("wait", false, "wait for its end; exit code 3 if the job at the end waits for failed jobs")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		body, err := s.requestBody(*file)
		if err != nil {
			return err
		}
		var said struct{ Sealed bool }
		if *wait && (json.Unmarshal(body, &said) != nil || !said.Sealed) {
			return misused(`--wait needs a file with "sealed": true`)
		}
		made, err := s.client.CreateBatchJSON(ctx, body, *key)
		switch {
		case err != nil:
			return err
		case *wait:
			b, err := s.client.WaitBatch(ctx, made.BatchID)
			if b.BatchID != "" {
				if shown := s.showBatch(&b); shown != nil {
					return shown
				}
			}
			return err
		case s.format == asJSON || s.format == asNDJSON:
			return s.document(made.Raw)
		}
		return s.line(made.BatchID)
	})
	return cmd
}

func (p program) batchSealCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "seal BATCH_ID", Short: "Add no more jobs to a batch", Args: wants(1, 1, "a BATCH_ID"),
		Long:    "Add no more jobs to a batch. A repeat changes nothing.",
		Example: "  tierq batch seal " + someBatch + " --wait",
	}
	wait := cmd.Flags().Bool("wait", false, "wait for its end; exit code 3 if the job at the end waits for failed jobs")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		b, err := s.client.SealBatch(ctx, args[0])
		if err == nil && *wait {
			b, err = s.client.WaitBatch(ctx, args[0])
		}
		if b.BatchID != "" {
			if shown := s.showBatch(&b); shown != nil {
				return shown
			}
		}
		return err
	})
	return cmd
}

func (p program) batchShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show BATCH_ID", Short: "Show a batch and its counts", Args: wants(1, 1, "a BATCH_ID"),
		Example: "  tierq batch show " + someBatch,
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		b, err := s.client.Batch(ctx, args[0])
		if err != nil {
			return err
		}
		return s.showBatch(&b)
	})
	return cmd
}

// showBatch prints a batch: the server's answer with --output json, else its counts.
func (s *session) showBatch(b *client.Batch) error {
	switch s.format {
	case asJSON, asNDJSON:
		return s.document(b.Raw)
	case asName:
		return s.line(b.BatchID)
	}
	return s.fields(
		field{name: "BATCH", value: b.BatchID}, field{name: "NAME", value: b.Name},
		field{name: "STATE", value: string(b.State)}, field{name: "ROUND", value: strconv.Itoa(b.Round)},
		field{name: "ENDED", value: fmt.Sprintf("%d of %d (%d %%)", b.Total-b.Living, b.Total, int(100*b.Progress))},
		field{name: "COMPLETED", value: count(b.Completed)}, field{name: "FAILED", value: count(b.Failed)},
		field{name: "CANCELLED", value: count(b.Cancelled)}, field{name: "EXPIRED", value: count(b.Expired)},
		field{name: "THEN", value: dash(b.ThenJobID)}, field{name: "CREATED", value: s.time(b.CreatedAt)},
	)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func (p program) batchMembersCommand() *cobra.Command {
	var l paged
	cmd := &cobra.Command{
		Use: "members BATCH_ID", Short: "List the jobs of a batch", Args: wants(1, 1, "a BATCH_ID"),
		Example: "  tierq batch members " + someBatch + " --status failed\n" +
			"  tierq batch members " + someBatch + " --status failed --all -o name | xargs tierq dead requeue",
	}
	status := cmd.Flags().String("status", "",
		"only with this `status`: living, completed, failed, cancelled, expired, lost")
	l.flags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		type member = client.BatchMember
		out := newList(s.output, func(m member) string { return m.JobID },
			column[member]{head: "JOB_ID", cell: func(m member) string { return m.JobID }},
			column[member]{head: "STATUS", cell: func(m member) string { return m.Status },
				color: func(m member) string { return statusColors[client.Status(m.Status)] }},
			column[member]{head: "GENERATION", cell: func(m member) string { return strconv.Itoa(m.Generation) }},
			column[member]{head: "ENDED", cell: func(m member) string { return s.time(m.EndedAt) }},
		)
		return walk(&l, s, out, func(limit int, cursor string) ([]member, string, error) {
			got, err := s.client.BatchMembers(ctx, args[0], strings.ToUpper(*status), cursor, limit)
			return got.Items, got.Next, err
		})
	})
	return cmd
}

func (p program) batchListCommand() *cobra.Command {
	var l paged
	cmd := &cobra.Command{
		Use: "list", Short: "List batches, the latest first", Args: noArgs, Example: "  tierq batch list --limit 5",
	}
	l.flags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		out := newList(s.output, func(b client.Batch) string { return b.BatchID },
			column[client.Batch]{head: "BATCH_ID", cell: func(b client.Batch) string { return b.BatchID }},
			column[client.Batch]{head: "NAME", cell: func(b client.Batch) string { return b.Name }},
			column[client.Batch]{head: "STATE", cell: func(b client.Batch) string { return string(b.State) }},
			column[client.Batch]{head: "ROUND", wide: true, cell: func(b client.Batch) string { return strconv.Itoa(b.Round) }},
			column[client.Batch]{head: "TOTAL", cell: func(b client.Batch) string { return count(b.Total) }},
			column[client.Batch]{head: "LIVING", cell: func(b client.Batch) string { return count(b.Living) }},
			column[client.Batch]{head: "FAILED", cell: func(b client.Batch) string { return count(b.Failed) }},
			column[client.Batch]{head: "CREATED", cell: func(b client.Batch) string { return s.time(b.CreatedAt) }},
		)
		return walk(&l, s, out, func(limit int, cursor string) ([]client.Batch, string, error) {
			got, err := s.client.Batches(ctx, cursor, limit)
			return got.Items, got.Next, err
		})
	})
	return cmd
}

func (p program) batchCancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel BATCH_ID", Short: "Cancel all jobs of a batch that have not ended", Args: wants(1, 1, "a BATCH_ID"),
		Long: "Seal a batch and cancel all its jobs that have not ended. Running jobs are told to stop. " +
			"A repeat does what\n" +
			"is left to do. The job at the end runs as at any end, unless it runs only when all are COMPLETED.",
		Example: "  tierq batch cancel " + someBatch,
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		done, err := s.client.CancelBatch(ctx, args[0])
		if err != nil {
			return err
		}
		if s.format == asJSON || s.format == asNDJSON {
			return s.document(done)
		}
		return s.line(fmt.Sprintf("%s  %d cancelled, %d running jobs told to stop", done.BatchID, done.Cancelled, done.Asked))
	})
	return cmd
}
