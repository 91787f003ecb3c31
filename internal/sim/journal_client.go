package sim

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// stamp records in SQL, after the answer, that Redis has the job. run is the incarnation that was known before the
// script was sent.
func (c *client) stamp(p *process, run string, arrived time.Time) {
	if !c.world.plan.stamps || arrived.IsZero() {
		return
	}
	id := c.id
	c.world.others.Go(func() {
		<-time.After(grid)
		ctx, cancel := context.WithTimeout(context.Background(), rowTime)
		defer cancel()
		_, _ = ask(ctx, p, "sql stamp", string(id)+" "+run, func(d *database) (bool, error) {
			if r := d.rows[id]; r != nil && r.Submitting {
				r.Submitting, r.Incarnation, r.ArrivedAt = false, run, arrived
				if c.delay > 0 {
					r.RunAt = arrived.Add(c.delay)
				}
			}
			return true, nil
		})
	})
}

// isDead says whether a process has died, so that its clients get no answer.
func (p *process) isDead() bool {
	select {
	case <-p.died:
		return true
	default:
		return false
	}
}

// row returns the journal row that SQL has of a submit before Redis is called.
func (c *client) row(p *process, priority int) *job.JournalRow {
	s := c.submission()
	r := &job.JournalRow{
		Job: job.Job{
			ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner, Payload: s.Payload, MaxRetries: s.MaxRetries,
			ArrivedAt: p.queue.View().Now(), Options: s.Options,
		},
		Priority: priority, Idempotency: s.Idempotency, Submitting: true,
	}
	if s.Delay > 0 {
		r.RunAt = r.ArrivedAt.Add(s.Delay)
	}
	return r
}

// submitFirst submits as admission does with a journal: first the row, then the script.
func (c *client) submitFirst(p *process) {
	c.fate = refused
	plan, ok := p.plans.Plan(c.tier)
	if !ok || p.isDead() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), submitPatience)
	defer cancel()
	r := c.row(p, plan.Priority)
	if c.world.Journal.RowLast {
		if c.send(ctx, p, r); c.fate != taken {
			return
		}
	}
	for {
		holder, err := p.writeSubmit(ctx, r)
		switch {
		case p.isDead():
			c.fate = unknown
		case errors.Is(err, job.ErrUnavailable) && !c.world.Journal.RowLast:
			c.fate = refused
		case err != nil:
			c.fate = unknown
		case holder.Refused != nil:
			c.fate = refused
		case holder.ID == "":
			if !c.world.Journal.RowLast {
				c.send(ctx, p, r)
			}
		case holder.OtherBody:
			c.fate, c.word = refused, job.Mismatch
		case holder.Submitting && !c.known(ctx, p, holder.ID):
			if <-time.After(submitPause); !p.isDead() && ctx.Err() == nil {
				continue
			}
			c.fate = unknown
		default:
			c.fate, c.word, c.first = taken, job.Replay, holder.ID
		}
		return
	}
}

// known says whether Redis has the job that a key stands for.
func (c *client) known(ctx context.Context, p *process, id job.ID) bool {
	missing, err := p.queue.Missing(ctx, []job.ID{id})
	return err == nil && len(missing) == 0 && !p.isDead()
}

// send submits a job that has its row to Redis, again and again until the outcome is known or patience ends.
func (c *client) send(ctx context.Context, p *process, r *job.JournalRow) {
	if c.stand(p, beforeScript); p.isDead() {
		c.fate = unknown
		return
	}
	if c.turned {
		c.refuse(p, r, "", "") // the gate has closed meanwhile
		return
	}
	if ctx.Err() != nil && !c.sends {
		c.refuse(p, r, "", "") // its process was stopped for too long, and sends no more
		return
	}
	run, open, refusals := p.queue.KnownIncarnation(c.id.Partition()), false, 0
	for {
		call, cancel := context.WithTimeout(context.Background(), scriptTime)
		replies, err := p.queue.Submit(call, c.id.Partition(), []job.Submission{c.submission()})
		cancel()
		if p.isDead() || ctx.Err() != nil { // patience ended while the call was under way
			c.fate = unknown
			return
		}
		unavailable := errors.Is(err, job.ErrUnavailable)
		if unavailable {
			refusals++
		}
		var word job.Word
		if err == nil {
			word = replies[0].Word
		}
		switch {
		case word == job.OK, word == job.IsHeld, word == job.Duplicate:
			c.fate, c.word = taken, word
			c.stamp(p, run, replies[0].ArrivedAt)
			return
		case word == job.Replay, word == job.Mismatch:
			if open {
				c.outliving(r)
			}
			c.refuse(p, r, word, replies[0].First)
			return
		case open: // a later copy's answer does not tell the outcome of an earlier copy
		case unavailable && refusals >= fewTries, word == job.Full, word == job.Quota, word == job.IsTaken:
			c.refuse(p, r, word, "")
			return
		case word == job.IsUnique, word == job.Replaced:
			c.standIn(p, r, &replies[0])
			return
		case unavailable, word == job.Late:
		default:
			open = true
		}
		<-time.After(submitPause)
		switch {
		case p.isDead(), ctx.Err() != nil && open:
			c.fate = unknown
			return
		case ctx.Err() != nil:
			c.refuse(p, r, word, "")
			return
		}
	}
}

// outliving records a submit whose outcome admission takes from a later copy's answer. The answer says that the
// key is another job's, so that an earlier copy under way makes no job. If Redis' key expires before that copy
// comes (SQL's key has expired by now), the copy makes a job that no client was told of and that has no row.
// Admission accepts that, because keys live for a minute at least; the keys of these seeds live for seconds.
func (c *client) outliving(r *job.JournalRow) {
	if w := c.world; w.plan.keepKeys == shortKeys {
		c.step("outliving", func() { w.sql.outliving[r.ID] = true })
	}
}

// refuse takes back the row of a submit that Redis certainly does not have. first is the first job of a repeat.
func (c *client) refuse(p *process, r *job.JournalRow, word job.Word, first job.ID) {
	c.word = word
	if c.world.Journal.RowLast {
		if c.fate = refused; first != "" {
			c.fate, c.first = taken, first
		}
		return
	}
	c.stand(p, beforeTakeBack)
	gone := false
	var err error
	if !p.isDead() {
		gone, err = p.takeBack(r)
	}
	switch {
	case p.isDead(), (err != nil || !gone) && !c.world.Journal.RefusesAlways:
		c.fate = unknown
	case first != "":
		c.fate, c.first = taken, first
	default:
		c.fate = refused
	}
}

// standIn takes back the row of a submit that another job stands for. A replaced payload is in that job's row first: if
// SQL does not take it, the submit's own row stays, and Redis gets its job.
func (c *client) standIn(p *process, r *job.JournalRow, reply *job.SubmitReply) {
	if reply.Word == job.Replaced && !c.world.Journal.KeepsPayloads && p.replaceRow(r, reply) != nil {
		c.word, c.fate = reply.Word, unknown
		return
	}
	c.refuse(p, r, reply.Word, reply.First)
}

// stand stops the client's process at a place, if the seed wants that.
func (c *client) stand(p *process, where string) {
	if c.still != where {
		return
	}
	_, _ = c.world.gate.pass(context.Background(), &call{
		proc: p, kind: inside, name: "stands still", args: []string{where, string(c.id)},
		hold: time.Now().Add(c.stillFor), wakes: c.wakes,
		do: func() (any, error) { c.world.report.Faults["stands still"]++; return nil, nil },
	})
}

// wakes says whether the event that ends the stop of a process has happened.
func (w *World) wakes(c *call) bool {
	return c.wakes != "" && w.sql.seen[sight{job.ID(c.args[1]), c.wakes}]
}
