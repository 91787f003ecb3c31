package chaos

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// Workers of other programs, the outsiders, run the jobs of a queue of their own. No server has a handler for the type
// of these jobs.

// outsiders is how many such workers there are at a time. A worker that vanishes is followed by another one.
const outsiders = 4

// outsideTimes are the times of their jobs: the shortest lease that a claim may ask for, and a bound for the attempts
// that their habits do not reach.
var outsideTimes = job.Plan{HeartbeatTimeout: 5 * time.Second, MaxProcessingTime: time.Minute}

// declareQueue declares the outsiders' queue and waits until every server knows it.
func (c *cluster) declareQueue(ctx context.Context) error {
	path := "/admin/queues/" + check.Queue
	body := fmt.Sprintf(`{"types":[%q],"maxProcessingSeconds":%d}`, check.Elsewhere,
		int(outsideTimes.MaxProcessingTime.Seconds()))
	status, err := c.ask(ctx, c.servers[0].base(), http.MethodPut, path, c.admin, body, nil)
	if err != nil || status >= 300 {
		return fmt.Errorf("declare a queue: %d %w", status, err)
	}
	return c.each(func(s *server) error {
		status := 0
		for end := time.Now().Add(20 * time.Second); status != http.StatusOK; {
			if time.Now().After(end) || !hold(ctx, 50*time.Millisecond) {
				return fmt.Errorf("server %d answers %d for the queue", s.n, status)
			}
			status, _ = c.ask(ctx, s.base(), http.MethodGet, path, c.admin, "", nil) // asked again
		}
		return nil
	})
}
