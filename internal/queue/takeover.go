package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// This file takes the data of an embedded Redis over from the process that had it before.

// Layout names what the keys depend on: data with another layout cannot be taken over.
func (q *Queue) Layout() string {
	return fmt.Sprintf("schema %d, TIERQ_PARTITIONS %d, TIERQ_PRIORITY_BASE %d", schemaVersion, q.opts.Partitions,
		q.opts.PriorityBase)
}

// Name returns the name of this process in tokens.
func (q *Queue) Name() string { return q.opts.Nonce }

// Continues makes this process go on with the incarnation of another one, whose data the embedded server has. It is
// called before anything else.
func (q *Queue) Continues(incarnation string) {
	q.runs[0].Store(&life{id: incarnation, since: time.Now()})
}

// OfProcess says whether a key is about the process alone that has the embedded Redis, or only tells the moment. The
// set-up and the plans are among them, because each start stores them.
func (q *Queue) OfProcess(key string) bool {
	if key == configKey || strings.HasPrefix(key, planKey("")) || strings.HasPrefix(key, leasePrefix) || key == probeKey {
		return true
	}
	for p := range q.opts.Partitions {
		own, is := strings.CutPrefix(key, prefix(p))
		if !is {
			continue
		}
		_, mark := q.channels[own]
		return mark || own == claimsSuffix(q.opts.Nonce) || own == suffixes["probe"] ||
			strings.HasPrefix(own, suffixes["doorbell"])
	}
	return false
}

// TakeOver makes data serve again that this process took over from another one. A worker that was cut off gets time to
// find the server, and loses nothing if it does not. What the pool of the process before still had is taken back.
func (q *Queue) TakeOver(ctx context.Context, process string) error {
	for p := range q.opts.Partitions {
		if err := q.takeOver(ctx, p, process); err != nil {
			return classify("take over", err)
		}
	}
	return nil
}

func (q *Queue) takeOver(ctx context.Context, partition int, process string) error {
	var leases *redis.MapStringStringCmd
	var beats, runs *redis.ZSliceCmd
	beatKey, runKey := Key(partition, "heartbeat_deadlines"), Key(partition, "run_deadlines")
	_, err := q.redis.Main.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		leases = pipe.HGetAll(ctx, Key(partition, "leases"))
		beats, runs = pipe.ZRangeWithScores(ctx, beatKey, 0, -1), pipe.ZRangeWithScores(ctx, runKey, 0, -1)
		return nil
	})
	if err != nil {
		return err
	}
	now := q.now()
	texts, lasts := unheard(leases.Val(), process)
	later := func(set []redis.Z, least func(id string) time.Duration) (moved []redis.Z) {
		for _, z := range set {
			id, _ := z.Member.(string)
			if until := float64(now.Add(least(id)).UnixMilli()); until > z.Score {
				moved = append(moved, redis.Z{Score: until, Member: id})
			}
		}
		return moved
	}
	_, err = q.redis.Main.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, id := range slices.Sorted(maps.Keys(texts)) {
			pipe.HSet(ctx, Key(partition, "leases"), id, texts[id])
		}
		if moved := later(beats.Val(), func(id string) time.Duration { return lasts[id] }); len(moved) > 0 {
			pipe.ZAdd(ctx, beatKey, moved...)
		}
		if moved := later(runs.Val(), func(string) time.Duration { return leastRun }); len(moved) > 0 {
			pipe.ZAdd(ctx, runKey, moved...)
		}
		return nil
	})
	for _, name := range q.queueNames() {
		err = errors.Join(err, q.RingIn(ctx, partition, name))
	}
	return err
}

// unheard returns the leases without their length, which a heartbeat gives back, and for how long each must live from
// now on.
func unheard(leases map[string]string, process string) (texts map[string]string, lasts map[string]time.Duration) {
	texts, lasts = map[string]string{}, map[string]time.Duration{}
	for id, text := range leases {
		lease, head, _ := strings.Cut(text, "\n")
		at := strings.LastIndex(lease, lengthWord)
		if at < 0 {
			lasts[id] = leastRestored
			continue
		}
		length, rest, more := strings.Cut(lease[at+len(lengthWord):], " ")
		if more {
			rest = " " + rest
		}
		lasts[id] = max(fromMs(int64(number(length))), leastRestored)
		if words := strings.Fields(lease[:at]); strings.HasPrefix(words[len(words)-1], process+":") {
			lasts[id] = 0
		}
		texts[id] = lease[:at] + rest + "\n" + head
	}
	return texts, lasts
}
