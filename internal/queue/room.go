package queue

import (
	"context"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Room says whether a job of this tier and owner would be taken in at this moment, in the partition of id: nil, job.ErrQueueFull where its
// tier's share is taken, job.ErrQuota where its owner has as many living jobs as he may (quota 0 = any number). It counts as submit does, and
// holds no place: whoever asks at the same time is told the same.
func (q *Queue) Room(ctx context.Context, id job.ID, tier job.Tier, owner string, quota int) error {
	plan, ok := q.plans.Plan(tier)
	if !ok {
		return job.ErrUnknownTier
	}
	now, err := q.countsOf(ctx, id.Partition())
	if err != nil {
		return classify("room", err)
	}
	if q.filled(now) >= int64(q.share(plan, q.opts.Capacity)) {
		return job.ErrQueueFull
	}
	if quota <= 0 || owner == "" {
		return nil
	}
	text, err := q.redis.Main.HMGet(ctx, Key(id.Partition(), "owners"), owner).Result()
	if err != nil {
		return classify("room", err)
	}
	said, _ := text[0].(string)
	if living, _ := strconv.Atoi(said); living >= q.part(quota) {
		return job.ErrQuota
	}
	return nil
}

// filled is how much of one partition's capacity is taken: tiers fill it one after the other, the smallest share first, and each at most to its
// share; those without a plan in front, in full.
func (q *Queue) filled(now *counts) int64 {
	n := func(field string) int64 {
		n, _ := strconv.ParseInt(now.fields[field], 10, 64)
		return n
	}
	plans := q.byShare()
	sum := n("fresh")
	for _, p := range plans {
		sum -= n(string(p.Tier) + ":fresh")
	}
	for _, p := range plans {
		sum = max(sum, min(sum+n(string(p.Tier)+":fresh"), int64(q.share(p, q.opts.Capacity))))
	}
	return sum
}
