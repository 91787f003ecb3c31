package queue

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Levels are the queue's counts, over all partitions, as the scripts keep them.
type Levels struct {
	Tiers        map[job.Tier]TierLevel
	Fresh        int64 // never-claimed ready jobs: what the capacity limits
	Delayed      int64 // jobs scheduled at submit and not yet due
	Outbox       int64 // ended jobs not yet in SQL
	OutboxBytes  int64 // their results and payloads
	Acknowledged int64 // ended jobs in SQL, ever
}

// TierLevel is one tier's part.
type TierLevel struct{ Ready, Fresh, Scheduled, Delayed, Running int64 }

// Levels reads the counts. Read once a second it also measures how many jobs end per second, which bounds how long Redis keeps them.
func (q *Queue) Levels(ctx context.Context) (Levels, error) {
	l := Levels{Tiers: map[job.Tier]TierLevel{}}
	for p := range q.opts.Partitions {
		fields, err := q.redis.Main.HGetAll(ctx, Key(p, "counters")).Result()
		if err != nil {
			return l, classify("levels", err)
		}
		for field, text := range fields {
			n, _ := strconv.ParseInt(text, 10, 64)
			l.add(field, n)
		}
		waiting, err := q.redis.Main.ZCard(ctx, Key(p, "outbox")).Result()
		if err != nil {
			return l, classify("levels", err)
		}
		l.Outbox += waiting
	}
	q.pace.measure(l.Acknowledged, time.Now())
	return l, nil
}

// Rate is how many jobs end per second, over all processes, as Levels last measured it; 0 = not known, or none.
func (q *Queue) Rate() float64 { return q.pace.rate() }

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
	tier, what, ok := strings.Cut(field, ":")
	if !ok {
		return
	}
	t := l.Tiers[job.Tier(tier)]
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
	l.Tiers[job.Tier(tier)] = t
}
