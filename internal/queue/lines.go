package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file reads the lines of a partition and sets the limits of their keys. lua/lines.lua says what Redis has of
// both.

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

// scanLine adds a line to what the audit looks at, with those of its jobs that have no record, and its jobs to those
// that SQL is asked about.
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

// OtherLimits returns which limits a partition has to be given, so that it has those that are wanted and no others.
func (q *Queue) OtherLimits(ctx context.Context, partition int, wanted []job.LineLimits) ([]job.LineLimits, error) {
	has, err := q.redis.Main.HGetAll(ctx, lineSetKey(partition, lineLimits)).Result()
	if err != nil {
		return nil, classify("limits of lines", err)
	}
	var other []job.LineLimits
	for i := range wanted {
		text, known := has[wanted[i].Name]
		delete(has, wanted[i].Name)
		if !known || text != limitsText(&wanted[i]) {
			other = append(other, wanted[i])
		}
	}
	for name := range has {
		other = append(other, job.LineLimits{Name: name})
	}
	return other, nil
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
	var ended func() []spent
	now := v.now()
	err := inStep(ctx, v.redis.Read, func(p redis.Pipeliner) error {
		rank = p.ZRank(ctx, readyKey(partition, j), string(j.ID))
		key = p.HGet(ctx, lineSetKey(partition, lineKeys), j.Line)
		limits = p.HGet(ctx, lineSetKey(partition, lineLimits), j.Line)
		parked = p.ZScore(ctx, lineSetKey(partition, lineParked), j.Line)
		ended = readSpent(ctx, p, partition, []string{lineName(j)}, now)
		return nil
	})
	if err != nil {
		return place, classify("line", err)
	}
	if errors.Is(rank.Err(), redis.Nil) {
		return place, job.ErrNotFound
	}
	place.Ahead, place.Limits, place.Rate = rank.Val(), limits.Val(), ended()[0].rate(now)
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

// firstOfLines puts the first job of a line in the place of each line among members of a queue, and leaves out lines
// that have no job any more.
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

// Lines returns the lines that wait, at most limit, the first ones in the order that is asked for; and how many lines
// and running attempts of keys there are.
func (v *View) Lines(ctx context.Context, f job.LineFilter, limit int) (job.LinesNow, error) {
	now, all := job.LinesNow{}, map[lineRef]*job.LineNow{}
	for p := range v.opts.Partitions {
		if err := v.linesOf(ctx, p, &f, all, &now); err != nil {
			return now, classify("lines", err)
		}
	}
	for _, one := range all {
		now.Items = append(now.Items, *one)
	}
	if err := v.shares(ctx, now.Items); err != nil {
		return now, classify("lines", err)
	}
	slices.SortFunc(now.Items, func(a, b job.LineNow) int {
		order := cmp.Compare(b.Waiting, a.Waiting)
		switch f.Order {
		case job.ByRunning:
			order = cmp.Compare(b.Running, a.Running)
		case job.ByShare:
			order = cmp.Compare(b.Share, a.Share)
		}
		return cmp.Or(order, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Queue, b.Queue))
	})
	now.Items = now.Items[:min(len(now.Items), limit)]
	return now, nil
}

// mostLines is how many lines of a partition Lines looks at: those with the most jobs.
const mostLines = 1000

func (v *View) linesOf(ctx context.Context, p int, f *job.LineFilter, all map[lineRef]*job.LineNow,
	now *job.LinesNow) error {
	keys, err := v.redis.Read.HGetAll(ctx, lineSetKey(p, lineKeys)).Result()
	if err != nil {
		return err
	}
	running, parked := map[string]int{}, map[string][]string{}
	for name, text := range keys {
		running[name], parked[name] = readLineKey(text)
		now.Running += running[name]
	}
	waiting, err := v.redis.Read.ZRangeWithScores(ctx, lineSetKey(p, lineWaiting), -mostLines, -1).Result()
	if err != nil {
		return err
	}
	count, err := v.redis.Read.ZCard(ctx, lineSetKey(p, lineWaiting)).Result()
	if err != nil {
		return err
	}
	now.Lines += count
	until, err := v.redis.Read.ZRangeWithScores(ctx, lineSetKey(p, lineParked), 0, -1).Result()
	if err != nil {
		return err
	}
	mayRun := map[string]time.Time{}
	for _, z := range until {
		if name, _ := z.Member.(string); z.Score < heldFrom {
			mayRun[name] = msTime(scoreText(z.Score))
		}
	}
	for _, z := range waiting {
		text, _ := z.Member.(string)
		l, ok := readLineName(text)
		if !ok || f.Name != "" && l.Key != f.Name || f.Tier != "" && job.Tier(l.Tier) != f.Tier ||
			f.Queue != "" && l.Queue != f.Queue {
			continue
		}
		one := all[l]
		if one == nil {
			one = &job.LineNow{Name: l.Key, Tier: job.Tier(l.Tier), Queue: l.Queue}
			all[l] = one
		}
		one.Waiting += int64(z.Score)
		one.Running += running[l.Key]
		if slices.Contains(parked[l.Key], l.Tier+":"+l.Queue) {
			one.Parked, one.Until = true, mayRun[l.Key]
		}
	}
	return nil
}
