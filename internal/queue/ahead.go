package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// Position counts the ready jobs that stand before a PENDING job: those of its line, or else those of its queue over
// all partitions, where a line counts as one job. 0 means that the job is next. With several partitions the count is
// approximate. The error is job.ErrNotFound if the job does not stand there any more.
func (v *View) Position(ctx context.Context, j *job.Job) (int64, error) {
	id := j.ID
	own := id.Partition()
	if own < 0 || own >= v.opts.Partitions {
		return 0, job.ErrNotFound
	}
	queue := j.QueueName()
	rank, err := v.redis.Read.ZRank(ctx, readyKey(own, j), string(id)).Result()
	if errors.Is(err, redis.Nil) {
		return 0, job.ErrNotFound
	}
	if err != nil {
		return 0, classify("position", err)
	}
	if v.opts.Partitions == 1 || j.Line != "" {
		return rank, nil
	}
	score, err := v.redis.Read.ZScore(ctx, QueueKey(own, queue), string(id)).Result()
	if errors.Is(err, redis.Nil) {
		return 0, job.ErrNotFound
	}
	if err != nil {
		return 0, classify("position", err)
	}
	for p := range v.opts.Partitions {
		if p == own {
			continue
		}
		n, err := v.redis.Read.ZCount(ctx, QueueKey(p, queue), "-inf", "("+scoreText(score)).Result()
		if err != nil {
			return 0, classify("position", err)
		}
		rank += n
	}
	return rank, nil
}

// strictBase is the smallest priority base with which tiers cannot overlap in this millennium.
const strictBase = 10_000_000_000_000

// Ahead counts the jobs that stand before a PENDING job, and splits the count by tier if the tiers' scores do not
// overlap. The error is job.ErrNotFound if the job is not in the queue any more.
func (v *View) Ahead(ctx context.Context, j *job.Job) (job.Ahead, error) {
	position, err := v.Position(ctx, j)
	if err != nil {
		return job.Ahead{}, err
	}
	a := job.Ahead{Position: position}
	bands, ok := v.bands()
	if !ok || j.Line != "" {
		return a, nil
	}
	a.ByTier = map[job.Tier]int64{}
	left := position
	for tier, band := range bands {
		if tier == j.Tier || !better(bands, tier, j.Tier) {
			continue
		}
		n, err := v.countBand(ctx, j.QueueName(), band)
		if err != nil {
			return job.Ahead{}, err
		}
		a.ByTier[tier] = min(n, left)
		left -= a.ByTier[tier]
	}
	a.ByTier[j.Tier] = left
	return a, nil
}

// band is the range of scores that a tier's jobs have: low is inside the range, high is just above it.
type band struct{ low, high float64 }

// bands returns the band of each tier. ok is false if bands overlap, because the priority base is small or because
// two tiers share a priority.
func (v *View) bands() (map[job.Tier]band, bool) {
	if v.opts.PriorityBase < strictBase {
		return nil, false
	}
	bands, seen := map[job.Tier]band{}, map[int]bool{}
	for _, p := range v.plans.All() {
		if seen[p.Priority] {
			return nil, false
		}
		seen[p.Priority] = true
		low := float64(p.Priority) * float64(v.opts.PriorityBase)
		bands[p.Tier] = band{low, low + float64(v.opts.PriorityBase)}
	}
	return bands, true
}

func better(bands map[job.Tier]band, a, b job.Tier) bool {
	other, known := bands[b]
	return !known || bands[a].low < other.low
}

func (v *View) countBand(ctx context.Context, queue string, b band) (int64, error) {
	sum := int64(0)
	for p := range v.opts.Partitions {
		n, err := v.redis.Read.ZCount(ctx, QueueKey(p, queue), scoreText(b.low), "("+scoreText(b.high)).Result()
		if err != nil {
			return 0, classify("ahead", err)
		}
		sum += n
	}
	return sum, nil
}

// oldestLook is how many ready jobs Oldest reads at most, per band or, where tiers overlap, per partition.
const oldestLook = 200

// Oldest returns, per tier, since when the tier's longest waiting job is ready: since its arrival or, for a
// delayed job, since it was due. Where tiers overlap (a small priority base), Oldest reads only the first 200
// ready jobs of each partition and leaves out a tier that has no job among them. It also leaves out a partition
// that does not answer soon; it returns an error only if no partition answers.
func (v *View) Oldest(ctx context.Context) (map[job.Tier]time.Time, error) {
	bands, ok := v.bands()
	oldest := map[job.Tier]time.Time{}
	keep := func(t job.Tier, arrived time.Time) {
		if known, seen := oldest[t]; !seen || arrived.Before(known) {
			oldest[t] = arrived
		}
	}
	var problems []error
	for p := range v.opts.Partitions {
		if err := v.oldestOf(ctx, p, bands, ok, keep); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == v.opts.Partitions {
		return nil, classify("oldest", errors.Join(problems...))
	}
	return oldest, nil
}

func (v *View) oldestOf(ctx context.Context, partition int, bands map[job.Tier]band, ok bool,
	keep func(job.Tier, time.Time)) error {
	ctx, cancel := v.briefly(ctx)
	defer cancel()
	for _, queue := range v.queueNames() {
		if !ok {
			if err := v.oldestOfFirst(ctx, partition, queue, keep); err != nil {
				return err
			}
			continue
		}
		for tier, b := range bands {
			err := v.oldestIn(ctx, partition, queue, b, func(since time.Time) { keep(tier, since) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// oldestIn finds the longest waiting job of a band. It stops at the first job that was never delayed: every job
// behind that job has waited for less time. Where lines stand in the queue it looks at the first job of each.
func (v *View) oldestIn(ctx context.Context, partition int, queue string, b band, keep func(since time.Time)) error {
	for from, step := int64(0), int64(1); from < oldestLook; from, step = from+step, lookStep {
		found, err := v.redis.Read.ZRangeByScoreWithScores(ctx, QueueKey(partition, queue), &redis.ZRangeBy{
			Min: scoreText(b.low), Max: "(" + scoreText(b.high), Offset: from, Count: step,
		}).Result()
		if err != nil || len(found) == 0 {
			return err
		}
		found, hasLines, err := v.firstOfLines(ctx, partition, queue, found)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		ids := make([]string, len(found))
		for i, z := range found {
			ids[i] = string(member(z))
		}
		tried, err := v.redis.Read.HMGet(ctx, Key(partition, "tried"), ids...).Result()
		if err != nil {
			return err
		}
		for i, z := range found {
			since := time.UnixMilli(int64(z.Score - b.low)).UTC()
			was := dueOf(tried[i])
			if was.IsZero() && !hasLines { // it was not delayed
				keep(since)
				return nil
			}
			if was.After(since) {
				since = was
			}
			keep(since)
		}
	}
	return nil
}

// oldestOfFirst reads the first ready jobs that a partition has in a queue, whatever their tier.
func (v *View) oldestOfFirst(ctx context.Context, partition int, queue string, keep func(job.Tier, time.Time)) error {
	members, err := v.redis.Read.ZRangeWithScores(ctx, QueueKey(partition, queue), 0, oldestLook-1).Result()
	if err == nil {
		members, _, err = v.firstOfLines(ctx, partition, queue, members)
	}
	if err != nil || len(members) == 0 {
		return err
	}
	ids := make([]string, len(members))
	for i, z := range members {
		ids[i] = string(member(z))
	}
	names := make([]job.ID, len(ids))
	for i, id := range ids {
		names[i] = job.ID(id)
	}
	jobs, err := v.findMany(ctx, names)
	if err != nil {
		return err
	}
	tried, err := v.redis.Read.HMGet(ctx, Key(partition, "tried"), ids...).Result()
	if err != nil {
		return err
	}
	for i, j := range jobs {
		if j == nil || j.Status != job.Pending {
			continue // a worker has just claimed or ended it, or the audit sets it aside
		}
		since := j.ArrivedAt
		if due := dueOf(tried[i]); due.After(since) {
			since = due
		}
		keep(j.Tier, since)
	}
	return nil
}

// dueOf reads from what tried has of a job when the job was due; the zero time if it was not delayed at submit.
func dueOf(tried any) time.Time {
	text, _ := tried.(string)
	var f [5]string
	if _, ok := cutFields(text, f[:]); !ok {
		return time.Time{}
	}
	return msTime(f[4])
}
