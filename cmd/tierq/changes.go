package main

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) changesCommand() *cobra.Command {
	var l paged
	cmd := &cobra.Command{
		Use: "changes", Short: "Show who changed what, the latest first", Args: noArgs,
		Long: "Show who changed what, the latest first: keys and tiers, and what operators did to jobs. Refused changes " +
			"are there as well. With -o json\n" +
			"each has what it was before and what it is after.",
		Example: "  tierq changes\n  tierq changes --limit 100 -o wide",
	}
	l.flags(cmd)
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		out := newList(s.output, func(c client.Change) string { return strconv.FormatInt(c.ID, 10) }, s.changeColumns()...)
		return walk(&l, s, out, func(limit int, cursor string) ([]client.Change, string, error) {
			got, err := s.client.Changes(ctx, cursor, limit)
			return got.Items, got.Next, err
		})
	})
	return cmd
}

var outcomeColors = map[string]string{"done": "32", "refused": "31", "unknown": "33"}

func (s *session) changeColumns() []column[client.Change] {
	return []column[client.Change]{
		{head: "AT", cell: func(c client.Change) string { return s.time(c.At) }},
		{head: "WHO", cell: func(c client.Change) string { return dash(cut(clean(cmp.Or(c.Name, c.Actor)), 40)) }},
		{head: "FROM", cell: func(c client.Change) string { return dash(c.Address) }},
		{head: "ACTION", cell: func(c client.Change) string { return c.Action }},
		{head: "TARGET", cell: func(c client.Change) string { return dash(cut(clean(c.Target), 80)) }},
		{head: "OUTCOME", cell: func(c client.Change) string { return c.Outcome },
			color: func(c client.Change) string { return outcomeColors[c.Outcome] }},
		{head: "KEY", wide: true, cell: func(c client.Change) string { return dash(c.Actor) }},
		{head: "TRACE", wide: true, cell: func(c client.Change) string { return dash(c.TraceID) }},
		{head: "ID", wide: true, cell: func(c client.Change) string { return strconv.FormatInt(c.ID, 10) }},
	}
}
