package admission

import (
	"context"
	"errors"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// Result is how one submission of a batch ended: Err is nil or one of Submit's errors, and Accepted is set where Submit returns it.
type Result struct {
	job.Accepted
	Err error
}

// errImpatient ends the context of a batch whose patience is over.
var errImpatient = errors.New("the patience of a batch is over")

// SubmitBatch accepts or refuses each submission by itself, as Submit does, and answers all of them within 2 s, in the order of the input.
// Health is looked at once. The entries share script calls: job.MaxBatch of them at a time go to one partition, in their order (but for those
// with an Idempotency-Key, which go to their own). What finds no room in the waiting list within the batch's patience is refused, never sent.
func (a *Admission) SubmitBatch(ctx context.Context, batch []job.Submission) []Result {
	results := make([]Result, len(batch))
	if err := a.open(ctx); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errImpatient)
	defer cancel()
	entries := make([]*entry, len(batch)) // nil = refused before it had one
	who := newCaller(1)                   // 1 for this function itself, until all entries are on their way
	for from := 0; from < len(batch); from += job.MaxBatch {
		to := min(from+job.MaxBatch, len(batch))
		if !a.room.wait(ctx, to-from) {
			for i := from; i < len(batch); i++ {
				results[i].Err = whyLeft(ctx, refuse(job.ErrUnhealthy, 0))
			}
			break
		}
		a.send(batch[from:to], entries[from:to], results[from:to], who)
	}
	who.answered()
	select {
	case <-who.done:
	case <-ctx.Done():
		for _, e := range entries {
			if e != nil {
				e.leave(whyLeft(ctx, nil))
			}
		}
	}
	for i, e := range entries {
		if e != nil {
			results[i] = a.result(e)
		}
	}
	return results
}

// whyLeft is the caller's reason to leave, or patience if it was that which ran out.
func whyLeft(ctx context.Context, patience error) error {
	if errors.Is(context.Cause(ctx), errImpatient) {
		return patience
	}
	return ctx.Err()
}

// send puts a call's worth of submissions into the lists of their committers. Their places are taken.
func (a *Admission) send(batch []job.Submission, entries []*entry, results []Result, who *caller) {
	var chosen *committer
	groups := map[*committer][]*entry{}
	for i := range batch {
		s := &batch[i]
		plan, ok := a.plans.Plan(s.Tier)
		c, err := chosen, job.ErrUnknownTier
		if ok {
			if err = nil; c == nil || s.Idempotency.Key != "" {
				c, err = a.place(s)
			}
			if err == nil {
				entries[i], err = a.entry(s, plan, c, who)
			}
		}
		if err != nil {
			results[i].Err = err
			a.room.give(1)
			continue
		}
		if s.Idempotency.Key == "" {
			chosen = c // those without a key share a call
		}
		who.left.Add(1)
		groups[c] = append(groups[c], entries[i])
	}
	for c, group := range groups {
		c.add(slices.Clip(group)...)
	}
}
