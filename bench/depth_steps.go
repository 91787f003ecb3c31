package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// drain submits jobs, claims as many, and ends them.
func (p *pool) drain(ctx context.Context, factor int) error {
	measure := func(what string, times int, do func() error) error { return p.measure(ctx, what, times, do) }
	err := measure("submit 100", 3*factor, func() error { _, err := p.put(ctx, job.MaxBatch, 0, job.Paid); return err })
	if err == nil {
		err = measure("claim 100", 3*factor, func() error { return p.claim(ctx, job.MaxBatch) })
	}
	if err != nil {
		return err
	}
	return p.finish(ctx, measure)
}

// round does everything once and leaves as many jobs as there were; what is short is done factor times as often.
func (p *pool) round(ctx context.Context, factor int) error {
	measure := func(what string, times int, do func() error) error { return p.measure(ctx, what, times, do) }
	steps := []func() error{
		func() error {
			return measure("submit 100", 3*factor, func() error { _, err := p.put(ctx, job.MaxBatch, 0, job.Paid); return err })
		},
		func() error {
			return measure("submit 100 delayed", factor,
				func() error { _, err := p.put(ctx, job.MaxBatch, time.Millisecond, job.Public); return err })
		},
		func() error { return p.promote(ctx, factor) },
		func() error {
			return measure("claim 100", 3*factor, func() error { return p.claim(ctx, job.MaxBatch) })
		},
		func() error {
			return measure("claim 1", 20*factor, func() error { return p.claim(ctx, 1) })
		},
		func() error { return p.beat(ctx, factor) },
		func() error {
			return measure("reclaim, a look", 5*factor, func() error { _, err := p.Reclaim(ctx, 0, job.Crashed, 0); return err })
		},
		func() error { return p.finish(ctx, measure) },
		func() error { return p.reads(ctx, factor) },
		func() error { return p.lists(ctx, factor) },
		func() error { return p.cancelled(ctx, measure, 80*factor) },
		func() error { return p.auditing(ctx, factor) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pool) claim(ctx context.Context, most int) error {
	p.claims++
	reply, err := p.Claim(ctx, 0, job.ClaimRequest{Number: p.claims, Max: most, Bound: math.Inf(1)})
	if err == nil && len(reply.Leases) != most {
		err = fmt.Errorf("%d leases, not %d", len(reply.Leases), most)
	}
	p.leases = append(p.leases, reply.Leases...)
	return err
}

func (p *pool) beat(ctx context.Context, factor int) error {
	beats := make([]job.Beat, 0, job.MaxBatch)
	for i := range p.leases[:min(len(p.leases), job.MaxBatch)] {
		beats = append(beats, job.Beat{LeaseRef: p.leases[i].Ref(), Timeout: 15 * time.Second})
	}
	return p.measure(ctx, "heartbeat 100", 5*factor, func() error { _, err := p.Heartbeat(ctx, 0, beats); return err })
}

// promote waits until what was delayed by a millisecond is due.
func (p *pool) promote(ctx context.Context, factor int) error {
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	for range factor {
		found := 0
		if err := p.measure(ctx, "promote 100", 1,
			func() (err error) { found, err = p.Promote(ctx, 0); return err }); err != nil {
			return err
		}
		if found != job.MaxBatch {
			return fmt.Errorf("promoted %d, not %d", found, job.MaxBatch)
		}
	}
	return p.measure(ctx, "promote, nothing due", 5*factor, func() error { _, err := p.Promote(ctx, 0); return err })
}

// finish completes and acknowledges what was claimed.
func (p *pool) finish(ctx context.Context, measure func(string, int, func() error) error) error {
	for len(p.leases) > 0 {
		n := min(len(p.leases), job.MaxBatch)
		ends, acks := make([]job.Completion, n), make([]job.Ack, n)
		for i, l := range p.leases[:n] {
			ends[i] = job.Completion{LeaseRef: l.Ref(), Result: []byte(result)}
			acks[i] = job.Ack{ID: l.ID, Generation: l.Generation, Attempt: l.Attempt, Status: job.Completed}
		}
		p.leases = p.leases[n:]
		complete, acknowledge := "complete 100", "acknowledge 100"
		if n < job.MaxBatch {
			complete, acknowledge = "complete fewer", "acknowledge fewer"
		}
		if err := measure(complete, 1, func() error { _, err := p.Complete(ctx, 0, ends); return err }); err != nil {
			return err
		}
		if err := measure(acknowledge, 1, func() error { _, err := p.Acknowledge(ctx, 0, acks); return err }); err != nil {
			return err
		}
	}
	return nil
}

// some is a job that waits, anywhere in the queue.
func (p *pool) some() job.ID { return p.ready[rand.IntN(len(p.ready))] }

func (p *pool) reads(ctx context.Context, factor int) error {
	for _, m := range []struct {
		what  string
		times int
		do    func() error
	}{
		{"status of a job", 25, func() error { _, err := p.View().Find(ctx, p.some()); return err }},
		{"position of a job", 25, func() error {
			_, err := p.View().Position(ctx, &job.Job{ID: p.some(), Tier: job.Public})
			return err
		}},
		{"what stands before a job", 25,
			func() error { _, err := p.View().Ahead(ctx, &job.Job{ID: p.some(), Tier: job.Public}); return err }},
		{"levels and the oldest", 25, func() error {
			if _, err := p.View().Levels(ctx); err != nil {
				return err
			}
			_, err := p.View().Oldest(ctx)
			return err
		}},
	} {
		if err := p.measure(ctx, m.what, m.times*factor, m.do); err != nil {
			return err
		}
	}
	return nil
}

func (p *pool) lists(ctx context.Context, factor int) error {
	j, err := p.View().Find(ctx, p.ready[len(p.ready)/2])
	if err != nil {
		return err
	}
	// The cursor of a page that ended at a job in the middle of those that wait: see queue.List.
	middle := fmt.Sprintf("1.0.%d.%s", 3*10000000000000+j.ArrivedAt.UnixMilli(), j.ID)
	owner := "key-3"
	for _, m := range []struct {
		what   string
		filter job.Filter
		cursor string
	}{
		{"list, first page", job.Filter{}, ""},
		{"list, from the middle", job.Filter{}, middle},
		{"list of a tier, from the middle", job.Filter{Tier: job.Public}, middle},
		{"list of a tier that comes late", job.Filter{Tier: job.Public, Status: job.Pending}, ""},
		{"list of a type", job.Filter{Type: "REPORT"}, middle},
		{"list of the scheduled", job.Filter{Status: job.Scheduled}, ""},
		{"list of an owner", job.Filter{Owner: &owner}, ""}, // its cursors are sealed
		{"list of a type that nobody has", job.Filter{Type: "NONE"}, middle},
	} {
		err := p.measure(ctx, m.what, factor,
			func() error { _, _, err := p.View().List(ctx, m.filter, m.cursor, 20); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// cancelled cancels jobs all over the queue and acknowledges that.
func (p *pool) cancelled(ctx context.Context, measure func(string, int, func() error) error, n int) error {
	n = min(n, len(p.ready)/2)
	return measure("cancel in the middle, to acknowledge", n, func() error {
		id := p.taken()
		words, err := p.Cancel(ctx, 0, []job.Cancellation{{ID: id}})
		if err != nil || words[0] != job.WasCancelled {
			return fmt.Errorf("%s: %s, %w", id, words, err)
		}
		_, err = p.Acknowledge(ctx, 0, []job.Ack{{ID: id, Generation: 1, Attempt: 0, Status: job.Cancelled}})
		return err
	})
}

// auditing goes on with a walk of the audit: its steps, one kind after the other.
func (p *pool) auditing(ctx context.Context, factor int) error {
	var suspects []job.Suspected
	err := p.measure(ctx, "audit, a step over keys", 5*factor, func() error {
		s, err := p.Scan(ctx, p.walk)
		suspects = append(suspects, s.Suspects...)
		if p.walk = s.Next; !strings.HasPrefix(p.walk, "keys ") {
			p.walk = ""
		}
		return err
	})
	if err != nil {
		return err
	}
	for len(suspects) >= job.MaxBatch {
		batch := suspects[:job.MaxBatch]
		suspects = suspects[job.MaxBatch:]
		err := p.measure(ctx, "audit, a look at 100 jobs", 1, func() error {
			found, err := p.AuditJobs(ctx, batch)
			if len(found) > 0 {
				return fmt.Errorf("found %+v", found[0])
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if p.middle == "" {
		p.middle = "set 0 0 0"
	}
	err = p.measure(ctx, "audit, a step over the queue", factor, func() error {
		s, err := p.Scan(ctx, p.middle)
		if p.middle = s.Next; !strings.HasPrefix(p.middle, "set 0 ") {
			p.middle = ""
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.measure(ctx, "audit, a recount", factor, func() error {
		found, err := p.Recount(ctx, 0, true)
		if len(found) > 0 {
			return fmt.Errorf("found %+v", found[0])
		}
		return err
	})
}
