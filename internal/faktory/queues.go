package faktory

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// queue serves QUEUE PAUSE, RESUME, REMOVE and LATENCY.
func (c *conn) queue(ctx context.Context, rest []byte) error {
	words := strings.Split(string(rest), " ")
	verb, names := strings.ToUpper(words[0]), words[1:]
	if verb == "LATENCY" {
		return c.latency(ctx, names)
	}
	operations := map[string]func(context.Context, string) error{
		"PAUSE": func(ctx context.Context, name string) error {
			_, err := c.server.Pauses.Pause(ctx, job.Pause{Scope: job.PauseQueue(name), By: c.caller.Key.Name})
			return err
		},
		"RESUME": c.server.resumeQueue,
		"REMOVE": c.server.removeQueue,
	}
	operation, known := operations[verb]
	if !known {
		return c.fail("no such QUEUE subcommand: " + verb)
	}
	if !c.caller.Admin() {
		return c.refuse(notAllowed)
	}
	if len(names) == 0 {
		return c.fail("QUEUE " + verb + " needs the names of queues")
	}
	if names[0] == "*" {
		names = c.visible()
	}
	for _, name := range names {
		if _, there := c.server.Queues.Find(name); !there || name == job.MainQueue {
			continue // as at the server of Faktory
		}
		if err := operation(ctx, name); err != nil && !errors.Is(err, job.ErrUnknownQueue) {
			return c.refuse(err)
		}
	}
	return c.ok()
}

// removeQueue cancels what waits in a queue, and forgets the queue. While jobs of it are scheduled or run it stays
// declared, and INFO does not list it.
func (s *Server) removeQueue(ctx context.Context, name string) error {
	for more := true; more; {
		err := again(func() (err error) {
			_, more, err = s.Queues.PurgeQueue(ctx, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	return again(func() error { return s.forgetQueue(ctx, name) })
}

// again makes a call once more, up to twice, if its answer was lost. Nothing is lost by a removal that is made twice.
func again(call func() error) error {
	err := call()
	for n := 0; n < 2 && errors.Is(err, job.ErrAmbiguous); n++ {
		err = call()
	}
	return err
}

func (s *Server) forgetQueue(ctx context.Context, name string) error {
	err := s.Queues.DeleteQueue(ctx, name)
	if errors.Is(err, job.ErrQueueInUse) {
		return s.Queues.ForFaktory(ctx, name, false)
	}
	if err != nil {
		return err
	}
	return s.resumeQueue(ctx, name)
}

func (s *Server) resumeQueue(ctx context.Context, name string) error {
	_, _, err := s.Pauses.Resume(ctx, job.PauseQueue(name))
	return err
}

// latency answers how long the oldest ready job of each queue has waited, in seconds.
func (c *conn) latency(ctx context.Context, names []string) error {
	if len(names) == 1 && names[0] == "*" {
		return c.fail("QUEUE LATENCY does not support wildcards")
	}
	latencies := make(map[string]float64, len(names))
	for _, name := range names[:min(len(names), mostQueues)] {
		latencies[name] = 0
		if !job.IsQueueName(name) || !c.sees(name) {
			continue
		}
		since, err := c.server.Counts.OldestIn(ctx, name)
		if err != nil {
			return c.refuse(err)
		}
		if !since.IsZero() {
			latencies[name] = max(c.server.Clock().Sub(since).Seconds(), 0)
		}
	}
	text, err := json.Marshal(latencies)
	if err != nil {
		return c.refuse(err)
	}
	return c.result(text)
}
