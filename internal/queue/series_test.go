package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A count is in the bucket of its time and in no other bucket, in every window. Buckets without counts are present
// and empty.
func TestSeries(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		now := time.Date(2026, 11, 21, 10, 34, 56, 0, time.UTC)
		ages := []time.Duration{ // the ages of the counts, each in a minute of its own
			0, 15 * time.Second, 4*time.Minute + 50*time.Second, 6 * time.Minute, 59 * time.Minute, 61 * time.Minute,
			23*time.Hour + 54*time.Minute, 24*time.Hour + 10*time.Minute,
		}
		e.SetClock(now)
		for i, age := range ages {
			e.SetClock(now.Add(-age))
			if err := e.AddStats(t.Context(), map[string]int64{"PAID:submitted": 1 << i, "PUBLIC:wait:7": 1}); err != nil {
				t.Fatal(err)
			}
		}
		e.SetClock(now)
		for _, want := range []struct {
			window time.Duration
			points int
			long   time.Duration
			from   time.Time
			counts map[string]int64 // by the start of the bucket
		}{
			{5 * time.Minute, 30, 10 * time.Second, time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC),
				map[string]int64{"10:34:50": 1, "10:34:40": 2, "10:30:00": 4}},
			{time.Hour, 60, time.Minute, time.Date(2026, 11, 21, 9, 35, 0, 0, time.UTC),
				map[string]int64{"10:34:00": 1 + 2, "10:30:00": 4, "10:28:00": 8, "09:35:00": 16}},
			{24 * time.Hour, 144, 10 * time.Minute, time.Date(2026, 11, 20, 10, 40, 0, 0, time.UTC),
				map[string]int64{"10:30:00": 1 + 2 + 4, "10:20:00": 8, "09:30:00": 16 + 32, "10:40:00": 64}},
		} {
			window := want.window
			series, err := e.ReadSeries(t.Context(), window)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "points of "+window.String(), len(series), want.points)
			found := 0
			for i, b := range series {
				same(t, "length", b.Long, want.long)
				same(t, "start", b.From, want.from.Add(time.Duration(i)*want.long))
				at := b.From.Format("15:04:05")
				same(t, window.String()+" at "+at, b.Counts["PAID:submitted"], want.counts[at])
				if b.Counts != nil {
					found++
				}
			}
			same(t, "filled buckets of "+window.String(), found, len(want.counts))
			e.Elapse(t, 16*time.Minute) // the short buckets expire; longer windows do not need them
		}
		if _, err := e.ReadSeries(t.Context(), 2*time.Hour); err == nil {
			t.Error("a window that nobody asked for")
		}
		series, err := e.ReadSeries(t.Context(), 5*time.Minute)
		if err != nil || len(series) != 30 || series[29].Counts != nil {
			t.Errorf("of nothing: %d points, %v", len(series), err)
		}
	})
}
