package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// InFlight reads at most so many running jobs, those with the earliest heartbeat deadlines. It leaves out a job
// that moves meanwhile. With several partitions it leaves out a partition that does not answer, and returns an
// error only if none answers.
func (v *View) InFlight(ctx context.Context, most int) ([]job.InFlight, error) {
	var all []job.InFlight
	var problems []error
	for p := range v.opts.Partitions {
		found, err := v.inFlight(ctx, p, most)
		if err != nil {
			problems = append(problems, err)
		}
		all = append(all, found...)
	}
	if len(problems) == v.opts.Partitions {
		return nil, classify("in flight", errors.Join(problems...))
	}
	slices.SortFunc(all, func(a, b job.InFlight) int { return a.HeartbeatBy.Compare(b.HeartbeatBy) })
	return all[:min(len(all), most)], nil
}

func (v *View) inFlight(ctx context.Context, partition, most int) ([]job.InFlight, error) {
	ctx, cancel := v.briefly(ctx)
	defer cancel()
	due, err := v.redis.Read.ZRangeWithScores(ctx, Key(partition, "heartbeat_deadlines"), 0, int64(most)-1).Result()
	if err != nil {
		return nil, err
	}
	ids := make([]job.ID, len(due))
	for i, z := range due {
		ids[i] = member(z)
	}
	jobs, err := v.findMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	ends := make([]*redis.FloatCmd, len(due))
	_, err = v.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			ends[i] = p.ZScore(ctx, Key(partition, "run_deadlines"), string(id))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: a job has just ended
		return nil, err
	}
	var found []job.InFlight
	for i, z := range due {
		j := jobs[i]
		if j == nil || j.Status != job.Processing || ends[i].Err() != nil {
			continue
		}
		found = append(found, job.InFlight{
			ID: j.ID, Tier: j.Tier, Type: j.Type, Worker: j.Worker, Attempt: j.Attempt, StartedAt: j.StartedAt,
			HeartbeatBy: time.UnixMilli(int64(z.Score)).UTC(), EndBy: time.UnixMilli(int64(ends[i].Val())).UTC(),
			Progress: j.Progress,
		})
	}
	return found, nil
}
