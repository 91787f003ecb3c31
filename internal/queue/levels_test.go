package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestLevels(t *testing.T) {
	t.Attr("proves", "S2-K6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Finish(t, l)
		e.Drain(t)
		e.Finish(t, e.Start(t, job.Paid))
		e.Start(t, job.Unpaid)
		e.PutAll(t, queuetest.Job(job.Public), queuetest.Job(job.Public), later(job.Public, time.Hour))
		back := e.Start(t, job.Paid)
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: back.Ref()}})
		ends(t, got, err, job.OK)

		levels, err := e.Levels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "PAID", levels.Tiers[job.Paid], queue.TierLevel{Ready: 1})
		same(t, "UNPAID", levels.Tiers[job.Unpaid], queue.TierLevel{Running: 1})
		same(t, "PUBLIC", levels.Tiers[job.Public], queue.TierLevel{Ready: 2, Fresh: 2, Scheduled: 1, Delayed: 1})
		same(t, "fresh", levels.Fresh, 2)
		same(t, "delayed", levels.Delayed, 1)
		same(t, "outbox", levels.Outbox, 1)
		same(t, "outbox bytes", levels.OutboxBytes, int64(len(`{"done":true}`)))
		same(t, "acknowledged", levels.Acknowledged, 1)
	})
}

func TestTimeToLive(t *testing.T) {
	t.Attr("proves", "S2-N11")
	t.Parallel()
	for name, c := range map[string]struct {
		retention time.Duration
		keep      int
		perSecond float64
		want      time.Duration
	}{
		"not measured yet":              {24 * time.Hour, 10, 0, 24 * time.Hour},
		"nothing ends":                  {time.Hour, 10, 0, time.Hour},
		"room for all":                  {time.Hour, 3600, 1, time.Hour},
		"half the room":                 {time.Hour, 1800, 1, 30 * time.Minute},
		"never below a minute":          {time.Hour, 10, 1000, time.Minute},
		"whatever was asked":            {20 * time.Second, 10, 1000, time.Minute},
		"whatever was asked, idle":      {20 * time.Second, 10, 0, time.Minute},
		"forget at once":                {0, 10, 0, 0},
		"forget at once, at any pace":   {0, 1_000_000, 1, 0},
		"keep none":                     {time.Hour, 0, 1, time.Minute},
		"less than nothing":             {-time.Second, 1, 1, 0},
		"a huge room does not overflow": {24 * time.Hour, 1 << 40, 0.0001, 24 * time.Hour},
	} {
		if got := queue.TimeToLive(c.retention, c.keep, c.perSecond); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A partition whose counters cannot be read does not hide the counts of the others. Its last reading stands.
func TestLevelsOfWhatAnswers(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 3 }, func(t *testing.T, e *queuetest.Env) {
		for p := range 3 {
			e.Redis.HSet(t.Context(), queue.Key(p, "counters"), "fresh", 10+p)
		}
		if levels, err := e.Levels(t.Context()); err != nil || levels.Fresh != 33 {
			t.Fatalf("%+v, %v", levels, err)
		}
		away := queue.Key(1, "counters")
		e.Redis.Del(t.Context(), away)
		e.Redis.Set(t.Context(), away, "no counters at all", 0)
		e.Redis.HSet(t.Context(), queue.Key(2, "counters"), "fresh", 20)
		if levels, err := e.Levels(t.Context()); err != nil || levels.Fresh != 10+11+20 {
			t.Errorf("%+v, %v", levels, err)
		}
		for _, p := range []int{0, 2} {
			e.Redis.Del(t.Context(), queue.Key(p, "counters"))
			e.Redis.Set(t.Context(), queue.Key(p, "counters"), "nor here", 0)
		}
		if levels, err := e.Levels(t.Context()); err == nil {
			t.Errorf("nobody answered: %+v", levels)
		}
		for p := range 3 {
			e.Redis.Del(t.Context(), queue.Key(p, "counters"))
		}
	})
}
