package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file reads the worker time that lines had in the last minutes. lua/lines_write.lua adds up the attempts that
// have ended, by the minute; the leases say what the running ones have had so far.

// spentMinutes is how many minutes are added up: the present one and the five before it.
const (
	spentMinutes = 6
	spentWindow  = spentMinutes * time.Minute
)

// spent has what a line, or all lines of a tier, had in the last minutes.
type spent struct {
	ended int64         // attempts
	time  time.Duration // of workers
	since time.Time     // from when on the ended attempts count; zero = none has ended
}

// add adds the text of a minute: "ended ms since".
func (s *spent) add(text string) {
	var ended, ms, since int64
	if n, err := fmt.Sscanf(text, "%d %d %d", &ended, &ms, &since); err != nil || n < 3 {
		return // there is none
	}
	s.ended += ended
	s.time += time.Duration(ms) * time.Millisecond
	if at := time.UnixMilli(since); s.since.IsZero() || at.Before(s.since) {
		s.since = at
	}
}

// rate returns how many attempts ended per second; 0 = none has ended.
func (s *spent) rate(now time.Time) float64 {
	if s.ended == 0 {
		return 0
	}
	return float64(s.ended) / max(now.Sub(s.since), time.Second).Seconds()
}

// readSpent asks for what the ended attempts of lines, or tiers, of a partition spent. The result, to be called once
// the pipeline has run, has them in the order of the names.
func readSpent(ctx context.Context, p redis.Pipeliner, partition int, names []string, now time.Time) func() []spent {
	minutes := make([]*redis.SliceCmd, spentMinutes)
	for i := range minutes {
		minutes[i] = p.HMGet(ctx, spentKey(partition, now, i), names...)
	}
	return func() []spent {
		all := make([]spent, len(names))
		for _, minute := range minutes {
			for i, value := range minute.Val() {
				text, _ := value.(string)
				all[i].add(text)
			}
		}
		return all
	}
}

// spentKey returns the key of the minute that was so many minutes ago.
func spentKey(partition int, now time.Time, ago int) string {
	return lineSetKey(partition, lineSpent) + fmt.Sprint(now.UnixMilli()/time.Minute.Milliseconds()-int64(ago))
}

// heldSoFar returns the worker time that the running attempts of each line, and of all lines of each tier, have had
// since the first of the minutes that are added up.
func (v *View) heldSoFar(ctx context.Context, partition int, now time.Time) (map[string]time.Duration, error) {
	first := now.Truncate(time.Minute).Add(time.Minute - spentWindow)
	held, seen := map[string]time.Duration{}, map[string]bool{}
	count := int64(scanMembers)
	if v.opts.Embedded {
		count = scanMemory
	}
	for cursor := uint64(0); ; {
		pairs, next, err := v.redis.Read.HScan(ctx, Key(partition, "leases"), cursor, "", count).Result()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			var j job.Job
			lease, _, _ := strings.Cut(pairs[i+1], "\n")
			if _, err := readLease(lease, &j); err != nil || j.Line == "" || seen[pairs[i]] {
				continue // torn, which is for the audit; without a line; or met twice
			}
			seen[pairs[i]] = true
			since := j.StartedAt
			if since.Before(first) {
				since = first
			}
			held[lineName(&j)] += max(now.Sub(since), 0)
			held[string(j.Tier)] += max(now.Sub(since), 0)
		}
		if cursor = next; cursor == 0 {
			return held, nil
		}
	}
}

// shares gives lines their shares of the worker time of their tiers.
func (v *View) shares(ctx context.Context, lines []job.LineNow) error {
	var names []string
	at := map[string]int{} // name of a line or a tier -> its place among the names
	nameOf := func(l *job.LineNow) string { return lineRef{string(l.Tier), l.Name, l.Queue}.String() }
	for i := range lines {
		for _, name := range []string{nameOf(&lines[i]), string(lines[i].Tier)} {
			if _, known := at[name]; !known {
				at[name] = len(names)
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	now, worked := v.now(), make([]time.Duration, len(names))
	for p := range v.opts.Partitions {
		var ended func() []spent
		_, err := v.redis.Read.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			ended = readSpent(ctx, pipe, p, names, now)
			return nil
		})
		if err != nil {
			return err
		}
		held, err := v.heldSoFar(ctx, p, now)
		if err != nil {
			return err
		}
		for i, of := range ended() {
			worked[i] += of.time + held[names[i]]
		}
	}
	for i := range lines {
		if all := worked[at[string(lines[i].Tier)]]; all > 0 {
			lines[i].Share = float64(worked[at[nameOf(&lines[i])]]) / float64(all)
		}
	}
	return nil
}
