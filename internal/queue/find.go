package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// Find reads a job as Redis knows it, or job.ErrNotFound. A COMPLETED job without a Result has it in SQL only.
func (q *Queue) Find(ctx context.Context, id job.ID) (job.Job, error) {
	if p := id.Partition(); p < 0 || p >= q.opts.Partitions {
		return job.Job{}, fmt.Errorf("find %s: %w", id, job.ErrNotFound)
	}
	v, err := q.redis.Read.HMGet(ctx, JobKey(id), "head", "payload", "state", "attempt", "retries", "first", "started", "ended", "cause", "error",
		"result", "cancel").Result()
	if err != nil {
		return job.Job{}, classify("find", err)
	}
	f := make([]string, len(v))
	for i := range v {
		f[i], _ = v[i].(string) // nil = absent
	}
	if f[0] == "" {
		return job.Job{}, fmt.Errorf("find %s: %w", id, job.ErrNotFound)
	}
	j := job.Job{
		ID: id, Payload: payload(f[1]), Status: job.Status(f[2]), Attempt: number(f[3]), RetryCount: number(f[4]), FirstTriedAt: msTime(f[5]),
		StartedAt: msTime(f[6]), EndedAt: msTime(f[7]), Cause: job.Cause(f[8]), LastError: f[9], Result: payload(f[10]), CancelRequested: f[11] == "1",
	}
	if j.Status == "" {
		j.Status = job.Pending // a new job's state is not spelled out
	}
	if err := readHead(f[0], &j); err != nil {
		return job.Job{}, fmt.Errorf("find: %w", err)
	}
	if j.Status == job.Scheduled {
		due, err := q.redis.Read.ZScore(ctx, Key(id.Partition(), "scheduled"), string(id)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return job.Job{}, classify("find", err)
		}
		j.RunAt = msTime(fmt.Sprintf("%.0f", due))
	}
	return j, nil
}
