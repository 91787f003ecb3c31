package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) workersCommand() *cobra.Command {
	return group("workers", "List workers, and make them quiet or end", p.workersListCommand(),
		p.workersAskCommand("quiet", "Make a worker claim nothing more", (*client.Client).QuietWorker,
			"The worker finishes the jobs that it has, and waits. resume makes it claim again."),
		p.workersAskCommand("resume", "Let a quiet worker claim again", (*client.Client).ResumeWorker,
			"It takes back a terminate, too, as long as the worker has not heard of it."),
		p.workersAskCommand("terminate", "Make a worker end", (*client.Client).TerminateWorker,
			"The worker finishes the jobs that it has, or gives them back, and ends. A process of the server does what it\n"+
				"does on SIGTERM, with all its roles. A worker that starts again under the same name within a minute hears\n"+
				"it, too."))
}

func (p program) workersListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the workers that were heard of lately", Args: noArgs,
		Example: "  tierq workers list\n  tierq workers list -o wide"}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		workers, err := s.client.Workers(ctx)
		if err != nil {
			return err
		}
		return s.showWorkers(workers)
	})
	return cmd
}

func (s *session) showWorkers(workers []client.Worker) error {
	l := newList(s.output, func(w client.Worker) string { return w.Name },
		column[client.Worker]{head: "WORKER", cell: func(w client.Worker) string { return w.Name }},
		column[client.Worker]{head: "KIND", cell: func(w client.Worker) string {
			return strings.TrimSpace(w.Kind + " " + w.Language)
		}},
		column[client.Worker]{head: "STATE", cell: func(w client.Worker) string { return w.State }},
		column[client.Worker]{head: "RUNNING", cell: func(w client.Worker) string {
			if w.Slots == 0 {
				return fmt.Sprint(w.Running)
			}
			return fmt.Sprintf("%d/%d", w.Running, w.Slots)
		}},
		column[client.Worker]{head: "QUEUES", cell: func(w client.Worker) string {
			return dash(strings.Join(w.Queues, ","))
		}},
		column[client.Worker]{head: "HOST", wide: true, cell: func(w client.Worker) string { return dash(w.Host) }},
		column[client.Worker]{head: "VERSION", wide: true, cell: func(w client.Worker) string { return dash(w.Version) }},
		column[client.Worker]{head: "SEEN", cell: func(w client.Worker) string { return s.time(w.SeenAt) }},
	)
	for _, w := range workers {
		if err := l.add(w); err != nil {
			return err
		}
	}
	return l.end(nil)
}

func (p program) workersAskCommand(verb, short string,
	do func(*client.Client, context.Context, string) (client.Worker, error), long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " WORKER", Short: short, Args: wants(1, 1, "a WORKER"),
		Long:    short + ", within a second or two.\n" + long,
		Example: "  tierq workers " + verb + " img-3-4711-58aeba",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		w, err := do(s.client, ctx, args[0])
		switch {
		case err != nil:
			return fmt.Errorf("worker %s: %w", args[0], err)
		case s.format == asJSON:
			return s.document(w)
		}
		return s.showWorkers([]client.Worker{w})
	})
	return cmd
}
