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
	var found []job.InFlight
	jobs, ends := make([]*redis.SliceCmd, len(due)), make([]*redis.FloatCmd, len(due))
	_, err = v.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, z := range due {
			jobs[i] = p.HMGet(ctx, JobKey(member(z)), findFields[:11]...)
			ends[i] = p.ZScore(ctx, Key(partition, "run_deadlines"), string(member(z)))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: a job has just ended
		return nil, err
	}
	for i, z := range due {
		j, err := readFound(member(z), jobs[i].Val())
		if err != nil || j.Status != job.Processing || ends[i].Err() != nil {
			continue
		}
		found = append(found, job.InFlight{
			ID: j.ID, Tier: j.Tier, Type: j.Type, Worker: j.Worker, Attempt: j.Attempt, StartedAt: j.StartedAt,
			HeartbeatBy: time.UnixMilli(int64(z.Score)).UTC(), EndBy: time.UnixMilli(int64(ends[i].Val())).UTC(),
		})
	}
	return found, nil
}
