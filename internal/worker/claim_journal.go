package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ClaimJournal records claims in SQL. Down says that the journal accepts nothing now. Claimed records attempts
// before their handlers start. Waits records that attempts ended and that their jobs wait again. After
// job.ErrAmbiguous the record may exist.
type ClaimJournal interface {
	Down() bool
	Claimed(ctx context.Context, leases []job.Lease) error
	Waits(ctx context.Context, waits []job.Waits) error
}

// journaled is the queue of an embedded server, whose Redis ends with the process. The attempts of a claim are on
// disk before their handlers start, so that a job that kills the process is known to have run.
type journaled struct {
	Queue
	journal ClaimJournal
	log     *slog.Logger
	rest    rest
}

// Journaled makes a queue whose claims are recorded in the journal.
func Journaled(q Queue, j ClaimJournal, log *slog.Logger) Queue {
	return &journaled{Queue: q, journal: j, log: log}
}

// rest delays claims for a while after the journal refused one, longer each time, because each refused claim adds
// a line to its jobs' histories.
type rest struct {
	mu    sync.Mutex
	long  time.Duration
	until time.Time
}

const restLeast, restMost = time.Second, 30 * time.Second

func (r *rest) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().After(r.until)
}

func (r *rest) heard(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.long = 0
		return
	}
	r.long = min(max(2*r.long, restLeast), restMost)
	r.until = time.Now().Add(r.long)
}

// Claim returns only leases that the journal has recorded. It releases the other jobs at no cost: no heartbeat
// would be sent for them, and a job that never ran must not lose its retries to a full disk. A repeat with the
// same number then gets no lease of them; the next number gets them.
func (j *journaled) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	if j.journal.Down() || !j.rest.over() {
		return job.ClaimReply{}, fmt.Errorf("claim: %w: the journal refuses writes", job.ErrUnavailable)
	}
	reply, err := j.Queue.Claim(ctx, partition, r)
	if err != nil || len(reply.Leases) == 0 {
		return reply, err
	}
	for i := range reply.Leases {
		reply.Leases[i].Own = r.Elsewhere == nil
	}
	err = j.journal.Claimed(ctx, reply.Leases)
	j.rest.heard(err)
	if err != nil {
		j.giveBack(ctx, partition, reply.Leases, errors.Is(err, job.ErrAmbiguous))
		// Whatever the journal's error is, the claim itself was executed.
		return job.ClaimReply{}, fmt.Errorf("%w: %s", job.ErrAmbiguous, err.Error())
	}
	return reply, nil
}

// giveBackBound is the time limit for releasing the jobs of a claim that was not recorded. The journal's answer
// may have used up the call's own time.
const giveBackBound = 2 * time.Second

// giveBack releases leases. If the journal may have recorded them, giveBack also records that their jobs wait.
func (j *journaled) giveBack(ctx context.Context, partition int, leases []job.Lease, taken bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackBound)
	defer cancel()
	batch := make([]job.Release, len(leases))
	for i := range leases {
		batch[i].LeaseRef = leases[i].Ref()
	}
	release := j.Queue.Release
	if taken {
		release = j.Release
	}
	if _, err := release(ctx, partition, batch); err != nil {
		j.log.Warn("claimed jobs could not be released; the watches take them back, and each loses a retry",
			"jobs", len(leases), "err", err)
	}
}

func (j *journaled) Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error) {
	replies, err := j.Queue.Fail(ctx, partition, batch)
	var waits []job.Waits
	for i, r := range replies {
		if r.Word == job.OK {
			b := &batch[i]
			waits = append(waits, job.Waits{ID: b.ID, Attempt: b.Attempt, Spent: 1, Due: due(r, b.Delay)})
		}
	}
	j.wait(ctx, waits)
	return replies, err
}

func (j *journaled) Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error) {
	replies, err := j.Queue.Release(ctx, partition, batch)
	var waits []job.Waits
	for i, r := range replies {
		if r.Word == job.OK {
			waits = append(waits, job.Waits{ID: batch[i].ID, Attempt: batch[i].Attempt, Due: due(r, batch[i].Delay)})
		}
	}
	j.wait(ctx, waits)
	return replies, err
}

// wait records that jobs wait again. If the journal refuses, each job loses a retry if the process dies before its
// next claim.
func (j *journaled) wait(ctx context.Context, waits []job.Waits) {
	if len(waits) == 0 {
		return
	}
	if err := j.journal.Waits(ctx, waits); err != nil {
		j.log.Warn("the journal could not record that jobs wait again; a crash before their next claim costs each a retry",
			"jobs", len(waits), "err", err)
	}
}

func due(r job.EndReply, delay time.Duration) time.Time {
	if delay <= 0 {
		return time.Time{}
	}
	return r.At.Add(delay)
}
