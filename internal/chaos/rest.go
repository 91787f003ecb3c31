package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/queue"
)

// mend revives every server that the faults left dead or armed. Each fault has repaired by itself what else it
// broke.
func (c *cluster) mend(ctx context.Context) error {
	return c.each(func(s *server) error {
		s.lock.Lock()
		defer s.lock.Unlock()
		return c.revive(ctx, s)
	})
}

// revive waits until a server is ready. If its process has ended, or ends meanwhile because of a poisoned job or a
// failpoint, revive starts another one.
func (c *cluster) revive(ctx context.Context, s *server) error {
	waiting, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	for {
		if err := c.bury(ctx, s); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(waiting, http.MethodGet, s.base()+"/readyz", http.NoBody)
		if err != nil {
			return fmt.Errorf("server %d: %w", s.n, err)
		}
		if resp, err := hurried.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if !hold(waiting, 50*time.Millisecond) {
			return fmt.Errorf("server %d (pid %s) is not ready %s after the last fault: %w", s.n, s.pid(), bootPatience,
				waiting.Err())
		}
	}
}

// nurse restarts servers that die after the lanes have ended: poisoned jobs may still wait, and failpoints may
// still be armed. It returns when ctx ends.
func (c *cluster) nurse(ctx context.Context) {
	var group sync.WaitGroup
	for _, s := range c.servers {
		group.Go(func() {
			for ctx.Err() == nil {
				if !s.awaitDeath(ctx, time.Minute) {
					continue
				}
				s.lock.Lock()
				err := c.bury(ctx, s)
				s.lock.Unlock()
				if err != nil && ctx.Err() == nil {
					c.breakOff(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// awaitRest waits until no job is in a set of Redis that is empty at rest, and no journal row is in SQL. It
// returns when that was, or the zero time and a text that says what is left.
func (c *cluster) awaitRest(ctx context.Context, within time.Duration) (time.Time, string) {
	left := "nobody looked"
	for end := time.Now().Add(within); time.Now().Before(end); {
		var err error
		if left, err = c.onTheWay(ctx); err != nil {
			left = err.Error()
		} else if left == "" {
			return time.Now(), ""
		}
		if !hold(ctx, 100*time.Millisecond) {
			break
		}
	}
	return time.Time{}, left
}

func (c *cluster) onTheWay(ctx context.Context) (string, error) {
	left := ""
	for _, set := range c.sets() {
		n, err := c.size(ctx, set)
		if err != nil {
			return "", err
		}
		if n > 0 {
			left += fmt.Sprintf("%d in %s, ", n, set)
		}
	}
	var rows int
	if err := c.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM accepted_jobs").Scan(&rows); err != nil {
		return "", fmt.Errorf("count accepted_jobs: %w", err)
	}
	if rows > 0 {
		left += fmt.Sprintf("%d rows of accepted_jobs, ", rows)
	}
	if err := c.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM flows WHERE ended_at IS NULL").Scan(&rows); err != nil {
		return "", fmt.Errorf("count flows: %w", err)
	}
	if rows > 0 {
		left += fmt.Sprintf("%d flows, ", rows)
	}
	return left, nil
}

// sets returns the sets of Redis that are empty at rest. There are none for an embedded server: its Redis cannot
// be read.
func (c *cluster) sets() []string {
	if c.Embedded {
		return nil
	}
	return []string{"queue", "scheduled", "heartbeat_deadlines", "run_deadlines", "outbox"}
}

// size returns how many jobs a set has in all partitions together. Of the jobs in lines it counts the lines: those of a
// line that may not run now are in no queue.
func (c *cluster) size(ctx context.Context, set string) (sum int64, err error) {
	for p := range c.Partitions {
		keys := []string{queue.Key(p, set)}
		if set == "queue" {
			keys = append(keys, queue.QueueKey(p, check.Queue), queue.Key(p, "lines")+"waiting")
		}
		for _, key := range keys {
			n, err := c.rdb.ZCard(ctx, key).Result()
			if err != nil {
				return 0, fmt.Errorf("count %s: %w", set, err)
			}
			sum += n
		}
	}
	return sum, nil
}
