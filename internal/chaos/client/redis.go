package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// ReadRedis fills in what Redis has: every job with its state, the sizes of its sets, its counters, and the
// findings of an audit. It reads each partition in one step. With many jobs that takes seconds, so that the
// cluster should be at rest and c needs a long read timeout.
func ReadRedis(ctx context.Context, c redis.UniversalClient, partitions int, e *check.Evidence) error {
	e.Redis, e.Live, e.Places = nil, map[job.ID]string{}, map[string]int{}
	for p := range partitions {
		s, err := queuetest.Read(ctx, c, p)
		if err != nil {
			return fmt.Errorf("read partition %d: %w", p, err)
		}
		for _, wrong := range s.Audit() {
			e.Redis = append(e.Redis, fmt.Sprintf("partition %d: %s", p, wrong))
		}
		for id, h := range s.Jobs {
			e.Live[job.ID(id)] = string(s.State(job.ID(id)).Shown()) + " " + cmp.Or(h["generation"], "?")
		}
		for name, set := range s.Sets {
			e.Places[name] += len(set)
		}
		e.Places["queue"] += len(s.Queue(check.Queue))
		e.Places["reserved"] += len(s.Reserved)
		for counter, n := range s.Counters {
			if counter != "acknowledged" { // this counter only grows
				e.Places[counter] += int(n)
			}
		}
	}
	return nil
}
