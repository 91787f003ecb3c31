package app

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// store is one of the two places that know jobs.
type store interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
}

// finder answers for a job from Redis and, where Redis has forgotten it or shed its result, from SQL. Redis first: between the end of
// a job and its row in SQL only Redis knows.
type finder struct{ queue, archive store }

// archivePatience bounds what a poll waits for SQL.
const archivePatience = time.Second

func (f finder) archived(ctx context.Context, id job.ID) (job.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	return f.archive.Find(ctx, id)
}

// Find returns the job as users may see it, or job.ErrNotFound.
func (f finder) Find(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := f.queue.Find(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return f.archived(ctx, id)
	case err != nil:
		return j, err
	case j.Status == job.Completed && j.Result == nil:
		return f.archived(ctx, id)
	case j.Status == job.Failed:
		return f.later(ctx, j), nil
	}
	return j, nil
}

// later is the job's later generation if SQL has one: a Redis that went back in time may still show an old FAILED. Without SQL, what
// Redis says stands.
func (f finder) later(ctx context.Context, j job.Job) job.Job {
	if archived, err := f.archived(ctx, j.ID); err == nil && archived.Generation > j.Generation {
		return archived
	}
	return j
}
