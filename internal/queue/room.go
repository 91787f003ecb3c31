package queue

import (
	"context"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Room says whether a job of this tier and owner would be taken in at this moment, in the partition of id: nil,
// job.ErrQueueFull where its tier's share is taken, job.ErrQuota where its owner has as many living jobs as he may
// (quota 0 = any number). It counts as submit does, and holds no place: whoever asks at the same time is told the same.
func (v *View) Room(ctx context.Context, id job.ID, tier job.Tier, owner string, quota int) error {
	plan, ok := v.plans.Plan(tier)
	if !ok {
		return job.ErrUnknownTier
	}
	now, err := v.countsOf(ctx, id.Partition())
	if err != nil {
		return classify("room", err)
	}
	if v.filled(now) >= int64(v.share(plan, v.opts.Capacity)) {
		return job.ErrQueueFull
	}
	for what, limit := range map[string]int{"living": v.opts.LivingLimit, "bytes": int(v.livingBytes.Load())} {
		if limit > 0 && v.taken(now, what, limit) >= int64(v.share(plan, limit)) {
			return job.ErrLivingFull
		}
	}
	if quota <= 0 || owner == "" {
		return nil
	}
	text, err := v.redis.Main.HMGet(ctx, Key(id.Partition(), "owners"), owner).Result()
	if err != nil {
		return classify("room", err)
	}
	said, _ := text[0].(string)
	if living, _ := strconv.Atoi(said); living >= v.part(quota) {
		return job.ErrQuota
	}
	return nil
}

// filled is how much of one partition's capacity is taken.
func (v *View) filled(now *counts) int64 { return v.taken(now, "fresh", v.opts.Capacity) }

// taken is how much of one partition's part of a limit is taken. The tiers fill it one after the other, the smallest
// share first, each at most to its share. Tiers without a plan come first and count in full. The living jobs of a tier
// without a plan are not counted: see submit.lua.
func (v *View) taken(now *counts, what string, limit int) int64 {
	n := func(field string) int64 {
		n, _ := strconv.ParseInt(now.fields[field], 10, 64)
		return n
	}
	of := func(t job.Tier) int64 {
		tier := string(t) + ":"
		if what == "living" {
			return max(n(tier+"ready"), 0) + max(n(tier+"scheduled"), 0) + max(n(tier+"running"), 0)
		}
		return max(n(tier+what), 0)
	}
	plans := v.byShare()
	sum := n(what)
	for _, p := range plans {
		sum -= of(p.Tier)
	}
	sum = max(sum, 0)
	for _, p := range plans {
		sum = max(sum, min(sum+of(p.Tier), int64(v.share(p, limit))))
	}
	return sum
}
