package admission

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// PrepareBatch says whether the jobs that come with a new batch may enter now: nil, job.ErrUnknownTier, or
// job.ErrUnhealthy or job.ErrPaused in a *Refusal. It gives the batch an id and returns the journal rows of the jobs,
// which no Redis has yet. It does not look at the capacity, and sends nothing.
func (a *Admission) PrepareBatch(ctx context.Context, b *job.Batch, jobs []job.Submission) ([]job.JournalRow, error) {
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	first := int(a.turn.Add(1)) % len(a.committers)
	id, err := a.mint.next(first)
	if err != nil {
		return nil, fmt.Errorf("mint an id: %w", err)
	}
	b.ID = id
	rows := make([]job.JournalRow, len(jobs))
	now := a.now()
	for n := range jobs {
		s := &jobs[n]
		plan, ok := a.plans.Plan(s.Tier)
		if !ok {
			return nil, job.ErrUnknownTier
		}
		if err := a.paused(s); err != nil {
			return nil, err
		}
		partition := (first + n) % len(a.committers)
		if home := s.Home(); home != "" { // of a line
			partition = job.Home(home, len(a.committers))
		}
		s.ID, s.Batch = job.BatchJobID(id, n, partition), string(id)
		s.Line = plan.LineFor(s.Line, s.Owner)
		s.ExpiresMs = plan.Expiry(s.ExpiresMs, a.due(s))
		if s.MaxRetries < 0 || s.MaxRetries > plan.MaxRetries {
			s.MaxRetries = plan.MaxRetries
		}
		rows[n] = job.JournalRow{
			Job: job.Job{
				ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner, TraceID: s.TraceID, Options: s.Options,
				Payload: s.Payload, MaxRetries: s.MaxRetries, Status: job.Pending, ArrivedAt: now, RunAt: due(s, now),
			},
			Priority: plan.Priority,
		}
	}
	return rows, nil
}
