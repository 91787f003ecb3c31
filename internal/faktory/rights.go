package faktory

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// mayPush returns an error if a caller may not submit a job into a queue. It declares a queue that is not declared, if
// the caller may.
func (c *conn) mayPush(ctx context.Context, queue string, tier job.Tier, typ string) error {
	who := &c.caller
	if !who.MaySubmit(tier, typ) || !who.MaySubmitTo(queue) {
		return notAllowed
	}
	return c.declare(ctx, queue)
}

// declare makes a queue known that jobs are pushed to or fetched from.
func (c *conn) declare(ctx context.Context, name string) error {
	s := c.server
	if name == job.MainQueue {
		return refusal("the queue main is for the job types of the server")
	}
	found, known := s.Queues.Find(name)
	if known && found.Faktory {
		return nil
	}
	if !known && !c.caller.MayDeclare(name) && !c.caller.Admin() {
		if err := (job.Queue{Name: name}).Check(); err != nil {
			return err
		}
		return refusal("there is no queue " + name + ", and this key declares none")
	}
	return s.Queues.ForFaktory(ctx, name, true)
}

// sees says whether a caller is shown a queue.
func (c *conn) sees(queue string) bool { return c.caller.Operator() || c.caller.MayFetch(queue) }

// visible returns the names of the queues of Faktory clients that a caller is shown.
func (c *conn) visible() (names []string) {
	for _, q := range c.server.Queues.All() {
		if q.Faktory && c.sees(q.Name) {
			names = append(names, q.Name)
		}
	}
	return names
}
