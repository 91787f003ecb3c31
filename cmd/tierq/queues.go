package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) queuesCommand() *cobra.Command {
	return group("queues", "List, declare, pause, purge and delete queues", p.queuesListCommand(),
		p.queuesDeclareCommand(),
		p.queuesHoldCommand("pause", "Stop handing out a queue's jobs", (*client.Client).PauseQueue),
		p.queuesHoldCommand("resume", "Hand out a queue's jobs again", (*client.Client).ResumeQueue),
		p.queuesPurgeCommand(), p.queuesDeleteCommand())
}

func (p program) queuesListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the queues and how many jobs they have", Args: noArgs,
		Example: "  tierq queues list\n  tierq queues list -o wide"}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		queues, err := s.client.Queues(ctx)
		if err != nil {
			return err
		}
		return s.showQueues(queues)
	})
	return cmd
}

func (s *session) showQueues(queues []client.Queue) error {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	l := newList(s.output, func(q client.Queue) string { return q.Name },
		column[client.Queue]{head: "QUEUE", cell: func(q client.Queue) string { return q.Name }},
		column[client.Queue]{head: "READY", cell: func(q client.Queue) string { return number(q.Ready) }},
		column[client.Queue]{head: "SCHEDULED", cell: func(q client.Queue) string { return number(q.Scheduled) }},
		column[client.Queue]{head: "RUNNING", cell: func(q client.Queue) string { return number(q.Running) }},
		column[client.Queue]{head: "LIMIT", cell: limitOf},
		column[client.Queue]{head: "TYPES", wide: true, cell: func(q client.Queue) string {
			return dash(strings.Join(q.Types, ","))
		}},
		column[client.Queue]{head: "MAX TIME", wide: true, cell: func(q client.Queue) string {
			if q.MaxRun == 0 {
				return "-"
			}
			return q.MaxRun.String()
		}},
		column[client.Queue]{head: "PUSH", wide: true, cell: pushOf},
		column[client.Queue]{head: "LOGS", wide: true, cell: func(q client.Queue) string {
			if q.LogsOff {
				return "off"
			}
			return "on"
		}},
		column[client.Queue]{head: "PAUSED SINCE", cell: func(q client.Queue) string { return s.time(q.Paused) }},
		column[client.Queue]{head: "VERSION", wide: true, cell: func(q client.Queue) string { return number(q.Version) }},
	)
	for _, q := range queues {
		if err := l.add(q); err != nil {
			return err
		}
	}
	return l.end(nil)
}

func limitOf(q client.Queue) string {
	if q.Name == client.MainQueue {
		return "-"
	}
	return strconv.Itoa(q.Limit)
}

// pushOf shows where a queue's jobs are posted, without what may open the address.
func pushOf(q client.Queue) string {
	if q.Push == nil {
		return "-"
	}
	u, err := url.Parse(q.Push.URL)
	if err != nil {
		return "on"
	}
	return u.Scheme + "://" + u.Host
}

func (s *session) showQueue(q client.Queue) error {
	if s.format == asJSON {
		return s.document(q)
	}
	return s.showQueues([]client.Queue{q})
}

func (p program) queuesDeclareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "declare QUEUE", Short: "Declare a queue, or replace its declaration", Args: wants(1, 1, "a QUEUE"),
		Long: "Declare a queue, or replace its declaration, on every instance at once. Jobs go into a queue whose\n" +
			"submit names it. They run where TIERQ_QUEUES names it, and on workers of your own that claim from it. With\n" +
			"--push every instance with the role worker posts their payloads to a URL instead, and the answer is the result.",
		Example: "  tierq queues declare films --limit 500\n" +
			"  tierq queues declare films --type TRANSCODE --max-processing 1h\n" +
			"  tierq queues declare pictures --type RESIZE --schema RESIZE=resize.schema.json\n" +
			"  tierq queues declare thumbs --push https://thumbs.example/jobs --push-concurrency 4",
	}
	limit := cmd.Flags().Int("limit", 0,
		"refuse submits once `n` jobs wait that were never claimed; 0: a quarter of the capacity")
	types := cmd.Flags().StringSlice("type", nil,
		"take jobs of these `types` only; a submit of one that names no queue goes here, if the server does not run it")
	schemas := cmd.Flags().StringArray("schema", nil,
		"check payloads of a type by a JSON Schema: `TYPE=FILE`; again for others")
	maxRun := cmd.Flags().Duration("max-processing", 0,
		"let an attempt run for this `time`, such as 1h, in whole seconds; 0: what the tier's plan says")
	noLogs := cmd.Flags().Bool("no-logs", false, "store no lines of its jobs' logs")
	push := pushFlags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		asked := client.Queue{Name: args[0], Limit: *limit, Types: *types, MaxRun: *maxRun, LogsOff: *noLogs}
		var err error
		if asked.Push, err = push(); err != nil {
			return err
		}
		if asked.Schemas, err = readSchemas(*schemas); err != nil {
			return err
		}
		q, err := s.client.DeclareQueue(ctx, asked, "")
		if err != nil {
			return err
		}
		return s.showQueue(q)
	})
	return cmd
}

// pushFlags adds the flags about the URL that a queue's jobs are posted to, and returns the function that reads them.
func pushFlags(cmd *cobra.Command) func() (*client.Push, error) {
	var to client.Push
	f := cmd.Flags()
	f.StringVar(&to.URL, "push", "", "post the queue's jobs to this `URL`")
	f.BoolVar(&to.Permanent4xx, "permanent-4xx", false, "with --push: an answer such as 400 or 404 ends a job for good")
	f.IntVar(&to.Concurrency, "push-concurrency", 0, "with --push: post `n` jobs at once, of each instance; 0: 10")
	f.StringVar(&to.Key, "push-key", "",
		"with --push: the `ID` of the worker's key with which the receiver ends jobs that it answered with 202")
	return func() (*client.Push, error) {
		switch {
		case to.URL != "":
			return &to, nil
		case to != client.Push{}:
			return nil, misused("--permanent-4xx, --push-concurrency and --push-key need --push")
		}
		return nil, nil
	}
}

// readSchemas reads the files that --schema names, by type.
func readSchemas(asked []string) (map[string]json.RawMessage, error) {
	schemas := map[string]json.RawMessage{}
	for _, one := range asked {
		typ, file, found := strings.Cut(one, "=")
		if !found || typ == "" || file == "" {
			return nil, misused("--schema %q is not TYPE=FILE", one)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, failure{fmt.Errorf("--schema: %w", err)}
		}
		if !json.Valid(text) {
			return nil, misused("--schema: %s is no JSON", file)
		}
		schemas[typ] = text
	}
	return schemas, nil
}

func (p program) queuesHoldCommand(verb, short string,
	do func(*client.Client, context.Context, string) (client.Queue, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " QUEUE", Short: short, Args: wants(1, 1, "a QUEUE"),
		Long:    short + ", on every instance within about a second. Running jobs run on, and submits are accepted.",
		Example: "  tierq queues " + verb + " films",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		q, err := do(s.client, ctx, args[0])
		if err != nil {
			return err
		}
		return s.showQueue(q)
	})
	return cmd
}

func (p program) queuesPurgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge QUEUE", Short: "Cancel a queue's ready jobs", Args: wants(1, 1, "a QUEUE"),
		Long: "Cancel the jobs of a queue that wait for a worker. Scheduled and running jobs stay. tierq asks on a\n" +
			"terminal; elsewhere add --yes.",
		Example: "  tierq queues purge films --yes",
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		if !*yes {
			err := s.ask(ctx, "Cancel all ready jobs of "+args[0]+"?")
			if errors.Is(err, errNoTerminal) {
				return misused("%v: add --yes", err)
			}
			if err != nil {
				return fmt.Errorf("queue %s: %w", args[0], err)
			}
		}
		sum := client.Purged{More: true}
		for sum.More {
			step, err := s.client.PurgeQueue(ctx, args[0])
			if err != nil {
				if sum.Cancelled > 0 {
					s.say("%d cancelled before it ended; the same command again goes on", sum.Cancelled)
				}
				return fmt.Errorf("queue %s: %w", args[0], err)
			}
			sum.Cancelled, sum.More = sum.Cancelled+step.Cancelled, step.More && step.Cancelled > 0
		}
		switch {
		case s.format == asName:
			return s.line(args[0])
		case !s.readable():
			return s.document(sum)
		}
		return s.line(fmt.Sprintf("%d cancelled", sum.Cancelled))
	})
	return cmd
}

func (p program) queuesDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete QUEUE", Short: "Delete a queue that has no jobs", Args: wants(1, 1, "a QUEUE"),
		Example: "  tierq queues delete films",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		if err := s.client.DeleteQueue(ctx, args[0]); err != nil {
			return fmt.Errorf("queue %s: %w", args[0], err)
		}
		return s.showDeleted(args[0])
	})
	return cmd
}

// showDeleted says that the queue or the schedule of a name is deleted.
func (s *session) showDeleted(name string) error {
	switch {
	case s.format == asName:
		return s.line(name)
	case !s.readable():
		return s.document(map[string]any{"name": name, "deleted": true})
	}
	return s.line(name + " is deleted")
}
