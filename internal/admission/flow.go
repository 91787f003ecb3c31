package admission

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// PrepareFlow says whether the jobs of a flow may enter now: nil, job.ErrUnknownTier, or job.ErrUnhealthy or
// job.ErrPaused in a *Refusal. It gives the flow an id, if it has none, and the jobs what is fixed for their lives. It
// does not look at the capacity, and sends nothing.
func (a *Admission) PrepareFlow(ctx context.Context, f *job.Flow) error {
	if err := a.open(ctx); err != nil {
		return err
	}
	if f.ID == "" {
		id, err := a.mint.next(0)
		if err != nil {
			return fmt.Errorf("mint an id: %w", err)
		}
		f.ID = id
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
		plan, ok := a.plans.Plan(j.Tier)
		if !ok {
			return job.ErrUnknownTier
		}
		s := job.Submission{Tier: j.Tier, Options: j.Options}
		if err := a.paused(&s); err != nil {
			return err
		}
		j.ID = job.FlowJobID(f.ID, j.Name, job.Home(job.FlowHome(&s, f.ID, j.Name), len(a.committers)))
		j.Flow, j.Options.Flow, j.Generation, j.Status, j.Priority = f.ID, f.ID, 1, job.Waiting, plan.Priority
		if j.MaxRetries < 0 || j.MaxRetries > plan.MaxRetries {
			j.MaxRetries = plan.MaxRetries
		}
	}
	return nil
}

// PlacesOf returns the places that jobs of a prepared flow need. A job that waits for others counts as a delayed one.
func (a *Admission) PlacesOf(f *job.Flow, owner, from string, quota int) []job.Reservation {
	places := make([]job.Reservation, len(f.Jobs))
	for i := range f.Jobs {
		j := &f.Jobs[i]
		r := job.Reservation{
			ID: j.ID, Tier: j.Tier, Owner: owner, Generation: 1, Options: j.Options, Bytes: len(j.Payload), Quota: quota,
			Waits: len(j.After) > 0 || j.Delay > 0 || !j.RunAt.IsZero(),
		}
		r.From = from
		if plan, known := a.plans.Plan(j.Tier); known {
			r.Line = plan.LineFor(r.Line, owner)
		}
		places[i] = r
	}
	return places
}

// Refused returns the answer to a job for which the stores have no capacity: err with the time after which to try
// again.
func (a *Admission) Refused(of *job.Submission, err error) error {
	return a.told(of, job.Accepted{}, err).Err
}
