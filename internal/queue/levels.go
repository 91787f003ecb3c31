package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Levels are the queue's counters, summed over all partitions, as the scripts keep them.
type Levels struct {
	Tiers        map[job.Tier]TierLevel
	Queues       map[string]TierLevel // of the declared queues that have jobs
	Fresh        int64                // never-claimed ready jobs
	Filled       int64                // how much of the capacity Fresh takes: of each tier no more than its share
	Delayed      int64                // jobs scheduled at submit and not yet due
	Outbox       int64                // ended jobs not yet in SQL
	OutboxBytes  int64                // their results and payloads
	Acknowledged int64                // ended jobs that ever reached SQL
}

// levelBound is how long a reading waits for one of several partitions: a partition that hangs must not hold up
// the counts of the others.
const levelBound = 500 * time.Millisecond

func (v *View) briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	if v.opts.Partitions == 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, levelBound)
}

// TierLevel has the counts of one tier, or of one declared queue.
type TierLevel struct{ Ready, Fresh, Scheduled, Delayed, Running int64 }

// counts is the last reading of one partition's counters.
type counts struct {
	fields map[string]string
	outbox int64
}

// Levels reads the counts. If it is called once a second, it also measures how many jobs end per second, which
// bounds how long Redis keeps ended jobs. A partition that does not answer counts with its last reading. Levels
// returns an error only if no partition answers.
func (v *View) Levels(ctx context.Context) (Levels, error) {
	var problems []error
	l := Levels{Tiers: map[job.Tier]TierLevel{}, Queues: map[string]TierLevel{}}
	for p := range v.opts.Partitions {
		now, err := v.countsOf(ctx, p)
		if err != nil {
			problems = append(problems, err)
			now = v.counted[p].Load()
		} else {
			v.counted[p].Store(now)
		}
		if now == nil {
			continue
		}
		for field, text := range now.fields {
			n, _ := strconv.ParseInt(text, 10, 64)
			l.add(field, n)
		}
		l.Outbox += now.outbox
		l.Filled += v.filled(now)
	}
	if len(problems) == v.opts.Partitions {
		return l, classify("levels", errors.Join(problems...))
	}
	v.pace.measure(l.Acknowledged, time.Now())
	return l, nil
}

func (v *View) countsOf(ctx context.Context, partition int) (*counts, error) {
	ctx, cancel := v.briefly(ctx)
	defer cancel()
	fields, err := v.redis.Main.HGetAll(ctx, Key(partition, "counters")).Result()
	if err != nil {
		return nil, err
	}
	outbox, err := v.redis.Main.ZCard(ctx, Key(partition, "outbox")).Result()
	return &counts{fields: fields, outbox: outbox}, err
}

// Rate returns how many jobs end per second, over all processes, as Levels last measured it; 0 = not known, or
// none.
func (v *View) Rate() float64 { return v.pace.rate() }

func (l *Levels) add(field string, n int64) {
	switch field {
	case "fresh":
		l.Fresh += n
	case "delayed":
		l.Delayed += n
	case "outbox_bytes":
		l.OutboxBytes += n
	case "acknowledged":
		l.Acknowledged += n
	}
	if named, ok := strings.CutPrefix(field, "@"); ok {
		if at := strings.LastIndexByte(named, ':'); at > 0 { // a queue's name may have colons
			of := l.Queues[named[:at]]
			of.add(named[at+1:], n)
			l.Queues[named[:at]] = of
		}
		return
	}
	tier, what, ok := strings.Cut(field, ":")
	if !ok || strings.HasPrefix(field, "#") { // '#' begins the counter of a line
		return
	}
	of := l.Tiers[job.Tier(tier)]
	of.add(what, n)
	l.Tiers[job.Tier(tier)] = of
}

func (t *TierLevel) add(what string, n int64) {
	switch what {
	case "ready":
		t.Ready += n
	case "fresh":
		t.Fresh += n
	case "scheduled":
		t.Scheduled += n
	case "delayed":
		t.Delayed += n
	case "running":
		t.Running += n
	}
}

// filled returns how much of one partition's capacity is used. The tiers fill it one after the other, the smallest
// share first, each at most up to its share. Tiers without a plan come first and count in full: see lua/room.lua.
func (v *View) filled(now *counts) int64 {
	n := func(field string) int64 {
		n, _ := strconv.ParseInt(now.fields[field], 10, 64)
		return n
	}
	of := func(t job.Tier) int64 { return max(n(string(t)+":fresh"), 0) }
	plans := v.byShare()
	sum := n("fresh")
	for _, p := range plans {
		sum -= of(p.Tier)
	}
	sum = max(sum, 0)
	for _, p := range plans {
		sum = max(sum, min(sum+of(p.Tier), int64(v.share(p, v.opts.Capacity))))
	}
	return sum
}
