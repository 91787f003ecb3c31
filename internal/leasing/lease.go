package leasing

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// held is what a sealed lease says: all that a report needs, so that no process has to remember it.
type held struct {
	job.Lease
	For time.Duration // how long the lease lives without a heartbeat
}

// leaseWords is how many words a lease has: id, generation, attempt, token, tier, type, queue, spent and most retries,
// start (ms), how long it lives (ms), how long the attempt may run (ms; 0 = what the plan says).
const leaseWords = 12

// seal returns what the worker holds: a text for this key alone.
func (r *Room) seal(ctx context.Context, key string, lives time.Duration, l *job.Lease) (string, error) {
	text := fmt.Sprintf("%s %d %d %s %s %s %s %d %d %d %d %d", l.ID, l.Generation, l.Attempt, l.Token, l.Tier, l.Type,
		l.QueueName(), l.RetryCount, l.MaxRetries, l.StartedAt.UnixMilli(), lives.Milliseconds(), l.MaxRunMs)
	return r.Sealer.Seal(ctx, text, key)
}

// open reads a sealed lease. The error is job.ErrBadLease for a text that is none, and job.ErrLeaseLost for one that is
// not this key's.
func (r *Room) open(ctx context.Context, key, sealed string) (h held, err error) {
	text, err := r.Sealer.Open(ctx, sealed, key)
	if err != nil {
		return h, err
	}
	f := strings.Split(text, " ")
	if len(f) != leaseWords {
		return h, job.ErrLeaseLost // of another version
	}
	var n [leaseWords]int64
	for _, i := range []int{1, 2, 7, 8, 9, 10, 11} {
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return h, job.ErrLeaseLost
		}
	}
	h.ID, h.Generation, h.Attempt, h.Token = job.ID(f[0]), int(n[1]), int(n[2]), f[3]
	h.Tier, h.Type, h.Queue = job.Tier(f[4]), f[5], f[6]
	if h.Queue == job.MainQueue {
		h.Queue = ""
	}
	h.RetryCount, h.MaxRetries, h.StartedAt = int(n[7]), int(n[8]), time.UnixMilli(n[9]).UTC()
	h.For, h.MaxRunMs = time.Duration(n[10])*time.Millisecond, n[11]
	if p := h.ID.Partition(); p < 0 || p >= r.Partitions {
		return h, job.ErrLeaseLost
	}
	return h, nil
}
