package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// Jobs are the jobs of schedules once they are made.
type Jobs interface {
	// GiveRows gives Redis the jobs of journal rows that were written after a time. What it cannot give, the reconciler
	// gives.
	GiveRows(ctx context.Context, rows []job.JournalRow, since time.Time) (int, error)
	Find(ctx context.Context, id job.ID) (job.Job, error)
	Cancel(ctx context.Context, id job.ID) (job.Word, error)
}

// Options are what a Firer and a Book need. All are required.
type Options struct {
	Plans      *job.PlanBook
	Queues     *job.QueueBook
	Pauses     *job.PauseBook
	Jobs       Jobs
	Partitions int
	Now        func() time.Time // Redis' time, as this process knows it
	// Open says whether the health gate lets jobs into a partition.
	Open func(partition int) bool
	// Reserve keeps a place for the job of a row, with the limits of a submit; again for the same job it changes nothing.
	// quota is how many living jobs its owner may have. job.ErrQueueFull, job.ErrQuota, or an error of Redis.
	Reserve func(ctx context.Context, r *job.JournalRow, quota int) error
	// Free gives the place of a job back that SQL does not get.
	Free func(ctx context.Context, id job.ID)
	// Key reads an API key; job.ErrNoKey.
	Key func(ctx context.Context, id string) (job.Key, error)
	// Occurred counts occurrences that this process has decided: n that were missed for a reason, or, if why is "", one
	// that was fired.
	Occurred func(why job.MissedReason, n int)
	Log      *slog.Logger
}

// refusal is why an occurrence does not become a job now.
type refusal struct {
	reason job.MissedReason
	err    error
}

// errKeyDead says that the API key of a schedule's owner is revoked or has expired.
var errKeyDead = errors.New("its owner's API key is revoked or has expired")

// row returns the journal row of an occurrence's job, which has its place now, or why the job may not be made now. It
// meets what a submit meets: the gate, pauses, the capacity and the owner's quota.
func (o *Options) row(ctx context.Context, s *job.Schedule, a asked) (r job.JournalRow, no *refusal) {
	key, err := o.owner(ctx, s)
	if err != nil {
		return r, &refusal{job.MissedDown, err}
	}
	plan, known := o.Plans.Plan(s.Job.Tier)
	if !known {
		return r, &refusal{job.MissedInvalid, fmt.Errorf("%w: %s", job.ErrUnknownTier, s.Job.Tier)}
	}
	queue := job.Queue{Name: job.MainQueue}
	if s.Job.Queue != "" {
		if queue, known = o.Queues.Find(s.Job.Queue); !known {
			return r, &refusal{job.MissedInvalid, fmt.Errorf("%w: %s", job.ErrUnknownQueue, s.Job.Queue)}
		}
	}
	r = rowOf(s, a, plan, queue, o.Partitions)
	if !o.Open(r.ID.Partition()) {
		return r, &refusal{job.MissedGate, job.ErrUnhealthy}
	}
	if p, on := o.Pauses.Refusing(queue.Name, plan.Tier); on {
		return r, &refusal{job.MissedPaused, fmt.Errorf("%w: %s", job.ErrPaused, p.Words())}
	}
	err = o.Reserve(ctx, &r, key.InFlight)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, job.ErrQuota):
		return r, &refusal{job.MissedQuota, err}
	case errors.Is(err, job.ErrQueueFull):
		return r, &refusal{job.MissedFull, err}
	}
	return r, &refusal{job.MissedDown, err}
}

// owner reads the API key of a schedule's owner. errKeyDead: the key makes no jobs any more. SQL has every key that was
// ever made, so a key that SQL does not have is that of TIERQ_ADMIN_KEY, which is neither revoked nor limited.
func (o *Options) owner(ctx context.Context, s *job.Schedule) (job.Key, error) {
	if s.Owner == "" {
		return job.Key{}, nil
	}
	key, err := o.Key(ctx, s.Owner)
	switch {
	case errors.Is(err, job.ErrNoKey):
		return job.Key{}, nil
	case err == nil && key.Dead(o.Now()):
		return key, errKeyDead
	case err != nil:
		return key, fmt.Errorf("read the key of a schedule's owner: %w", err)
	}
	return key, nil
}

// give gives Redis a job that SQL owes it, and cancels the jobs that it replaces.
func (o *Options) give(ctx context.Context, f *job.Firing, since time.Time) {
	failpoint.Hit("schedule.after", f.Row.ID)
	if _, err := o.Jobs.GiveRows(ctx, []job.JournalRow{*f.Row}, since); err != nil && ctx.Err() == nil {
		o.Log.Warn("the job of a schedule could not be given to Redis now; the reconciler gives it", "job_id", f.Row.ID,
			"schedule", f.Name, "err", err)
	}
	for _, id := range f.Replaced {
		_, err := o.Jobs.Cancel(ctx, id)
		if err != nil && ctx.Err() == nil && !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrWrongState) {
			o.Log.Warn("a job that is replaced could not be cancelled in Redis now; the reconciler cancels it", "job_id", id,
				"schedule", f.Name, "err", err)
		}
	}
}

// running sets f.Running, if a schedule's new job replaces those that wait. A job that a worker claims after that may
// be asked to stop.
func (o *Options) running(ctx context.Context, t living, s *job.Schedule, f *job.Firing) error {
	if f.Replaces = s.Overlap == job.OverlapReplace; !f.Replaces {
		return nil
	}
	ids, err := t.LivingRuns(ctx, s.Name)
	if err != nil {
		return err
	}
	for _, id := range ids {
		switch j, err := o.Jobs.Find(ctx, id); {
		case errors.Is(err, job.ErrNotFound):
		case err != nil:
			return fmt.Errorf("look for a job that may be replaced: %w", err)
		case j.Status == job.Processing || j.Status.Ended():
			f.Running = append(f.Running, id)
		}
	}
	return nil
}

// living is SQL, which has the jobs of a schedule that have not ended.
type living interface {
	LivingRuns(ctx context.Context, name string) ([]job.ID, error)
}
