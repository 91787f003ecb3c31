package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fate is what a client knows of its order in the end.
type fate string

const (
	taken   fate = "ok"
	refused fate = "refused" // the order was not executed and never will be
	unknown fate = "unknown"
)

// client executes one order in its own goroutine, through a process that serves it, and keeps the answer.
type client struct {
	order
	number int
	world  *World
	fate   fate
	word   job.Word // the answer to a submit or cancel
	first  job.ID   // the first job of a repeated submit, or the job that stands for a submit with a unique key
	began  time.Time
	ended  time.Time
	done   bool
}

func (c *client) run() {
	<-time.After(c.at)
	var p *process
	c.step("order", func() {
		p, c.began = c.world.processes[c.process], time.Now()
		switch {
		case c.expires > 0 && c.key == "": // the rules say nothing of jobs with both
			c.by = c.world.ms() + c.expires.Milliseconds()
		case c.what == "requeue" && c.in == "":
			c.id = c.world.sql.dead(c.id)
		case c.running:
			c.id = c.world.shadow.running(c.id)
		case c.again:
			c.id = c.world.shadow.again(c.id)
		}
	})
	if p == nil {
		return // the run is over
	}
	switch c.what {
	case "submit":
		if c.world.plan.journal || c.batch != "" {
			c.submitFirst(p)
		} else {
			c.submit(p)
		}
	case "cancel":
		word, err := p.ledger.Cancel(context.Background(), c.id)
		c.word, c.fate = word, told(err)
	case "kill":
		c.fate = told(p.ledger.Kill(context.Background(), c.id, ""))
	case "hasten":
		c.fate = told(p.ledger.Hasten(context.Background(), c.id))
	case "audit":
		c.audit(p)
	case "poll":
		c.poll()
	case "plans":
		c.change()
	case "pause", "own":
		c.hold()
	case "damage":
		c.step("damages a line", func() { c.world.damageLine(c.tries) })
	case "limit":
		c.limit(p)
	case "work":
		c.work()
	case "forget":
		c.forget(p)
	case "make a batch", "seal", "cancel a batch":
		c.inBatches(p)
	case "submit a flow", "cancel a flow":
		c.inFlows(p)
	case "requeue":
		c.waitForDead()
		c.fate = told(p.ledger.Requeue(context.Background(), c.id, job.Request{ID: c.request, Cascade: c.cascade}))
	}
	c.step("answered", func() { c.done, c.ended = true, time.Now() })
}

// waitForDead waits for a while until the batch or flow of a requeue has a dead letter, and requeues the first.
func (c *client) waitForDead() {
	found := false
	for range 20 {
		if c.in == "" || found {
			return
		}
		c.step("looks for a dead letter", func() {
			if id := c.world.sql.deadIn(c.in); id != "" {
				c.id, found = id, true
			}
		})
		<-time.After(5 * grid)
	}
}

// step executes do at the gate, so that no two goroutines touch the world at once.
func (c *client) step(name string, do func()) {
	_, _ = c.world.gate.pass(context.Background(), &call{
		proc: c.world.outside, kind: inside, name: name, args: []string{c.what, string(c.id), strconv.Itoa(c.number)},
		do: func() (any, error) { do(); return nil, nil },
	})
}

func told(err error) fate {
	switch {
	case err == nil:
		return taken
	case errors.Is(err, job.ErrAmbiguous) || errors.Is(err, context.DeadlineExceeded):
		return unknown
	}
	return refused
}

// submission returns what an order's submit sends.
func (o *order) submission() job.Submission {
	text, _ := json.Marshal(payload{o.id})
	s := job.Submission{ID: o.id, Tier: o.tier, Type: jobType, Payload: text, Delay: o.delay, Owner: o.owner,
		Quota: o.quota, Idempotency: o.once, Options: job.Options{Queue: o.queue, Unique: o.key, ExpiresMs: o.by,
			Line: o.line, Batch: string(o.batch)},
		UniqueOn: o.on, MaxWait: o.maxWait}
	for _, p := range append(tiers(), added) {
		if p.Tier == o.tier {
			s.MaxRetries = p.MaxRetries
		}
	}
	return s
}

// submit sends the same submission again until an answer comes, as admission does, or until the client has tried
// often enough.
func (c *client) submit(p *process) {
	c.fate = refused
	for range c.tries {
		replies, err := p.queue.Submit(context.Background(), c.id.Partition(), []job.Submission{c.submission()})
		switch {
		case err == nil && replies[0].Word == job.Late:
		case err == nil:
			c.word, c.first = replies[0].Word, replies[0].First
			switch c.word {
			case job.OK, job.IsHeld, job.Duplicate, job.Replay:
				c.fate = taken
			case job.IsUnique, job.Replaced:
				if c.fate != unknown { // an earlier copy may still be under way, and may make a job
					c.fate = taken
				}
			default:
				if c.fate == unknown {
					break // an earlier copy may still be under way
				}
				c.fate = refused
			}
			return
		case !errors.Is(err, job.ErrUnavailable):
			c.fate = unknown
		}
		<-time.After(2 * grid)
	}
}

func (c *client) String() string { return fmt.Sprintf("%s %s: %s %s", c.what, c.id, c.fate, c.word) }
