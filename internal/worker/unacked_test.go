package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Undelivered results are bounded in bytes too: a few large ones stop the pool from claiming, and all are
// delivered in the end.
func TestClaimPausesBehindLargeResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, jobs = 4 << 20, 40
		result := strings.Repeat("x", size)
		r := newRig(func(context.Context) (string, error) { return result, nil },
			func(c *Config) { c.ResultLimit = 2 * size })
		var down atomic.Bool
		down.Store(true)
		r.queue.complete = func(batch []job.Completion) ([]job.EndReply, error) {
			if down.Load() {
				return nil, job.ErrAmbiguous
			}
			return all(job.OK, len(batch)), nil
		}
		for i := range jobs {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(5 * time.Second)
		// One claim may be under way when the limit is reached, for two slots.
		if s := r.Stats(); s.Undelivered < maxUnackedBytes/size || s.Undelivered > maxUnackedBytes/size+2 {
			t.Errorf("%d results of 4 MiB wait, want about %d", s.Undelivered, maxUnackedBytes/size)
		}
		down.Store(false)
		after(5 * time.Second)
		if s := r.Stats(); s.Completed != jobs || s.Undelivered != 0 {
			t.Errorf("stats = %+v, want all %d completed after the outage", s, jobs)
		}
		r.mu.Lock()
		if r.unackedBytes != 0 {
			t.Errorf("%d bytes are owed to nobody", r.unackedBytes)
		}
		r.mu.Unlock()
		r.stop(t)
	})
}
