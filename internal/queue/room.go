package queue

import (
	"context"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Room says whether the partition of id would accept a job of this tier and owner now, to run at once. It returns
// nil; job.ErrQueueFull if the tier's share of the capacity is used; job.ErrLivingFull if its share of the limits
// of living jobs is used; job.ErrQuota if the owner has as many living jobs as quota allows (0 = any number); or
// job.ErrUnknownTier. Room counts as submit.lua does and reserves nothing: concurrent callers get the same answer.
func (v *View) Room(ctx context.Context, id job.ID, tier job.Tier, owner string, quota int) error {
	if err := v.RoomFor(ctx, id, tier, 1); err != nil {
		return err
	}
	return v.QuotaRoom(ctx, id, owner, quota, 1)
}

// RoomFor is Room for n jobs of one partition, without the quota.
func (v *View) RoomFor(ctx context.Context, id job.ID, tier job.Tier, n int) error {
	plan, ok := v.plans.Plan(tier)
	if !ok {
		return job.ErrUnknownTier
	}
	now, err := v.countsOf(ctx, id.Partition())
	if err != nil {
		return classify("room", err)
	}
	more := int64(n) - 1
	if v.filled(now)+more >= int64(v.share(plan, v.opts.Capacity)) {
		return job.ErrQueueFull
	}
	for what, limit := range map[string]int{"living": v.opts.LivingLimit, "bytes": int(v.livingBytes.Load())} {
		if limit > 0 && v.taken(now, what, limit)+more >= int64(v.share(plan, limit)) {
			return job.ErrLivingFull
		}
	}
	return nil
}

// QuotaRoom says whether the partition of id would accept n more jobs of an owner: nil, or job.ErrQuota if the owner
// would have more living jobs than the quota allows. The quota is one for all tiers. 0 and no owner are any number.
func (v *View) QuotaRoom(ctx context.Context, id job.ID, owner string, quota, n int) error {
	if quota <= 0 || owner == "" {
		return nil
	}
	text, err := v.redis.Main.HMGet(ctx, Key(id.Partition(), "owners"), owner).Result()
	if err != nil {
		return classify("room", err)
	}
	said, _ := text[0].(string)
	if living, _ := strconv.Atoi(said); living+n > v.part(quota) {
		return job.ErrQuota
	}
	return nil
}

// QueueRoom says whether the partition of id would accept n more jobs into a declared queue now, to run at once: nil,
// or job.ErrOwnLimit if the queue would have more ready jobs that were never claimed than it may have. main has no
// limit of its own. QueueRoom counts as submit.lua does and reserves nothing.
func (v *View) QueueRoom(ctx context.Context, id job.ID, queue string, n int) error {
	if queue == job.MainQueue {
		return nil
	}
	now, err := v.countsOf(ctx, id.Partition())
	if err != nil {
		return classify("room", err)
	}
	declared, _ := v.opts.Queues.Find(queue)
	fresh, _ := strconv.Atoi(now.fields["@"+queue+":fresh"])
	if max(fresh, 0)+n > max(declared.LimitOf(v.opts.Capacity)/v.opts.Partitions, 1) {
		return job.ErrOwnLimit
	}
	return nil
}

// filled returns how much of one partition's capacity is used.
func (v *View) filled(now *counts) int64 { return v.taken(now, "fresh", v.opts.Capacity) }

// taken returns how much of one partition's part of a limit is used. The tiers fill the limit one after the other,
// the smallest share first, each at most up to its share. Tiers without a plan come first and count in full,
// except that their living jobs are not counted: see submit.lua.
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
