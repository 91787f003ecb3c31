package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file reads the lines of a partition and sets the limits of their keys. lua/lines.lua says what Redis has of both.

// isLine says whether a member of a queue is a line.
func isLine(member string) bool { return strings.HasPrefix(member, "@") }

// kindOfLine classifies a key of lines, see kindOf.
func kindOfLine(name string) string {
	if strings.HasPrefix(name, lineJobs) {
		return "line"
	}
	fixed := []string{lineWaiting, lineVirtual, lineKeys, lineLimits, lineParked}
	if strings.HasPrefix(name, lineTags) || slices.Contains(fixed, name) {
		return "fixed"
	}
	return ""
}

// scanLine adds a line to what the audit looks at, with those of its jobs that have no record, and its jobs to those that
// SQL is asked about.
func (q *Queue) scanLine(ctx context.Context, key string, s *job.Scanned) error {
	partition, suffix := q.splitKey(key)
	name := strings.TrimPrefix(suffix, suffixes["lines"]+lineJobs)
	l, ok := readLineName(name)
	if !ok {
		s.Found = append(s.Found, job.Finding{Partition: partition, Result: job.Reported, Kind: "unknown_key", Detail: key})
		return nil
	}
	s.Suspects = append(s.Suspects, job.Suspected{ID: job.ID(l.member()), Partition: partition, MetIn: l.Queue})
	for cursor := uint64(0); ; {
		pairs, next, err := q.redis.Main.ZScan(ctx, key, cursor, "", scanMembers).Result()
		if err != nil {
			return classify("scan", err)
		}
		ids := make([]job.ID, 0, len(pairs)/2)
		for i := 0; i+1 < len(pairs); i += 2 {
			ids = append(ids, job.ID(pairs[i][:min(len(pairs[i]), idLength)]))
		}
		if err := q.suspect(ctx, s, partition, ids, true, "@"+name); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// lineRef names a line.
type lineRef struct{ Tier, Key, Queue string }

// readLineName reads "tier:key:queue".
func readLineName(name string) (l lineRef, ok bool) {
	f := strings.SplitN(name, ":", 3)
	if len(f) != 3 || f[0] == "" || f[1] == "" || f[2] == "" {
		return l, false
	}
	return lineRef{f[0], f[1], f[2]}, true
}

func (l lineRef) String() string { return l.Tier + ":" + l.Key + ":" + l.Queue }

// member returns the line's member in its queue.
func (l lineRef) member() string { return "@" + l.Tier + ":" + l.Key }

// SetLimits gives keys of lines their limits in a partition, and lets their parked lines go if they may run now. No
// limits at all take the key's limits away.
func (q *Queue) SetLimits(ctx context.Context, partition int, limits []job.LineLimits) error {
	for batch := range slices.Chunk(limits, job.MaxBatch) {
		args := make([]any, 0, 2*len(batch))
		for i := range batch {
			args = append(args, batch[i].Name, limitsText(&batch[i]))
		}
		if _, err := q.words(ctx, q.redis.Main, q.limitKeys, partition, len(batch), args); err != nil {
			return err
		}
	}
	return nil
}

// limitsText writes limits as lua/lines.lua reads them; "" = there are none.
func limitsText(l *job.LineLimits) string {
	if l.None() {
		return ""
	}
	strict, until := "0", "0"
	if l.Strict {
		strict = "1"
	}
	if l.Paused != nil {
		if until = noLimit; !l.Paused.Until.IsZero() {
			until = stamp(l.Paused.Until)
		}
	}
	interval := "0"
	if l.Rate > 0 {
		interval = strconv.FormatFloat(1000/l.Rate, 'f', 3, 64)
	}
	return fmt.Sprintf("%d %d %s %d %d %s %s", l.Running, max(l.Weight, 1), interval, max(l.Burst, 1), l.Waiting, strict,
		until)
}

// LineOf reads a job's place in its line. The error is job.ErrNotFound if the job is not in a line.
func (v *View) LineOf(ctx context.Context, j *job.Job) (job.LinePlace, error) {
	place, partition := job.LinePlace{Name: j.Line}, j.ID.Partition()
	if j.Line == "" || partition < 0 || partition >= v.opts.Partitions {
		return place, job.ErrNotFound
	}
	var rank *redis.IntCmd
	var key, limits *redis.StringCmd
	var parked *redis.FloatCmd
	err := inStep(ctx, v.redis.Read, func(p redis.Pipeliner) error {
		rank = p.ZRank(ctx, readyKey(partition, j), string(j.ID))
		key = p.HGet(ctx, lineSetKey(partition, lineKeys), j.Line)
		limits = p.HGet(ctx, lineSetKey(partition, lineLimits), j.Line)
		parked = p.ZScore(ctx, lineSetKey(partition, lineParked), j.Line)
		return nil
	})
	if err != nil {
		return place, classify("line", err)
	}
	if errors.Is(rank.Err(), redis.Nil) {
		return place, job.ErrNotFound
	}
	place.Ahead, place.Limits = rank.Val(), limits.Val()
	running, homes := readLineKey(key.Val())
	place.Running = running
	place.Parked = slices.Contains(homes, string(j.Tier)+":"+j.QueueName())
	if until := parked.Val(); place.Parked && parked.Err() == nil && until < heldFrom {
		place.Until = msTime(scoreText(until))
	}
	return place, nil
}

// readLineKey reads what Redis has of a key of lines: "running next behind" and the homes of its parked lines.
func readLineKey(text string) (running int, parked []string) {
	f := strings.Fields(text)
	if len(f) < 3 {
		return 0, nil
	}
	return number(f[0]), f[3:]
}

// lineSetKey returns the key of what a partition has of all lines or keys.
func lineSetKey(partition int, name string) string { return Key(partition, "lines") + name }

// firstOfLines puts the first job of a line in the place of each line among members of a queue, and leaves out lines that
// have no job any more.
func (v *View) firstOfLines(ctx context.Context, partition int, queue string, members []redis.Z) (jobs []redis.Z,
	hasLines bool, err error) {
	firsts := make([]*redis.ZSliceCmd, len(members))
	_, err = v.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, z := range members {
			if text, _ := z.Member.(string); isLine(text) {
				firsts[i] = p.ZRangeWithScores(ctx, LineKey(partition, text[1:]+":"+queue), 0, 0)
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	for i, z := range members {
		if firsts[i] == nil {
			jobs = append(jobs, z)
			continue
		}
		hasLines = true
		jobs = append(jobs, firsts[i].Val()...)
	}
	return jobs, hasLines, nil
}
