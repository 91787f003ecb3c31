package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// findFields are the hash fields that readFound reads, in its order. Callers that need no payload and result leave
// out the last two.
var findFields = []string{
	"head", "state", "attempt", "retries", "first", "started", "ended", "cause", "error", "cancel", "token", "payload",
	"result",
}

// Find reads a job as Redis has it, or returns job.ErrNotFound. The result of a COMPLETED job without a Result is
// only in SQL.
func (v *View) Find(ctx context.Context, id job.ID) (job.Job, error) {
	if p := id.Partition(); p < 0 || p >= v.opts.Partitions {
		return job.Job{}, fmt.Errorf("find %s: %w", id, job.ErrNotFound)
	}
	fields, err := v.redis.Read.HMGet(ctx, JobKey(id), findFields...).Result()
	if err != nil {
		return job.Job{}, classify("find", err)
	}
	j, err := readFound(id, fields)
	if err != nil {
		return job.Job{}, fmt.Errorf("find %s: %w", id, err)
	}
	if j.Status == job.Scheduled {
		due, err := v.redis.Read.ZScore(ctx, Key(id.Partition(), "scheduled"), string(id)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return job.Job{}, classify("find", err)
		}
		j.RunAt = msTime(scoreText(due))
	}
	return j, nil
}

// readFound builds a job from the values of findFields, with or without the last two.
func readFound(id job.ID, v []any) (job.Job, error) {
	var f [13]string
	for i := range v {
		f[i], _ = v[i].(string) // nil = absent
	}
	if f[0] == "" {
		return job.Job{}, job.ErrNotFound
	}
	j := job.Job{
		ID: id, Status: job.Status(f[1]), Attempt: number(f[2]), RetryCount: number(f[3]), FirstTriedAt: msTime(f[4]),
		StartedAt: msTime(f[5]),
		EndedAt:   msTime(f[6]), Cause: job.Cause(f[7]), LastError: f[8], CancelRequested: f[9] == "1", Worker: holder(f[10]),
		Payload: payload(f[11]), Result: payload(f[12]),
	}
	if j.Status == "" {
		j.Status = job.Pending // a new job's hash has no state
	}
	j.Note = job.NoteOf(j.Result)
	return j, readHead(f[0], &j)
}

// Attempts reads the attempts that Redis has of a job: the unsuccessful attempts of its living or unacknowledged
// generation, oldest first, at most 50.
func (v *View) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	if p := id.Partition(); p < 0 || p >= v.opts.Partitions {
		return nil, nil
	}
	var head *redis.StringCmd
	var lines *redis.StringSliceCmd
	_, _ = v.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
		head = p.HGet(ctx, JobKey(id), "head")
		lines = p.LRange(ctx, Key(id.Partition(), "attempts")+string(id), 0, -1)
		return nil
	})
	// Each command has its own error. Pipelined returns only the first error, which is Nil where Redis does not have
	// the job.
	err := lines.Err()
	if err == nil && !errors.Is(head.Err(), redis.Nil) {
		err = head.Err()
	}
	if err != nil {
		return nil, classify("attempts", err)
	}
	attempts := make([]job.Attempt, 0, len(lines.Val()))
	for _, line := range lines.Val() {
		a, err := readAttempt(line, generationOf(head.Val()))
		if err != nil {
			return nil, fmt.Errorf("attempts of %s: %w", id, err)
		}
		attempts = append(attempts, a)
	}
	return attempts, nil
}

// member returns the job id in an entry of a sorted set.
func member(z redis.Z) job.ID {
	text, _ := z.Member.(string)
	return job.ID(text)
}
