package app

import (
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// Jobs that ended meanwhile, and jobs that Redis still has, are not missing.
func TestMissing(t *testing.T) {
	t.Attr("proves", "F19")
	levels := func(ready, running, outbox, acknowledged int64) queue.Levels {
		return queue.Levels{
			Tiers:  map[job.Tier]queue.TierLevel{job.Paid: {Ready: ready, Scheduled: 1}, job.Public: {Running: running}},
			Outbox: outbox, Acknowledged: acknowledged,
		}
	}
	for name, tc := range map[string]struct {
		before, now queue.Levels
		want        int64
	}{
		"it comes back whole":                {levels(5, 2, 3, 100), levels(5, 2, 3, 100), 0},
		"whole, and jobs ended meanwhile":    {levels(5, 2, 3, 100), levels(1, 2, 4, 103), 0},
		"whole, and jobs came in meanwhile":  {levels(5, 2, 3, 100), levels(9, 2, 3, 100), 0},
		"empty":                              {levels(5, 2, 3, 100), queue.Levels{}, 11},
		"empty, and it never ended a job":    {levels(5, 2, 0, 0), queue.Levels{}, 8},
		"empty, and jobs came in meanwhile":  {levels(5, 2, 3, 100), levels(3, 0, 0, 0), 11},
		"behind by four submits":             {levels(5, 2, 3, 100), levels(1, 2, 3, 100), 4},
		"behind: four submits, as many ends": {levels(5, 2, 3, 100), levels(5, 2, 3, 96), 4},
		"it was never seen before":           {queue.Levels{}, levels(5, 2, 3, 100), 0},
	} {
		if got := missing(tc.before, tc.now); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
