// Package recovery repairs what a crash or an outage left behind: the two watches over running jobs, the promoter
// of scheduled jobs, the drainer of the outbox, the reconciler, the audit, the retention of rows in SQL, and the
// forgetter. Each is a loop around runOnce. Any number of processes may run them at once: every step is atomic in
// Redis, and work that one process has done the others no longer find.
package recovery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Reclaimer makes one look of a watch at a partition's expired jobs. It passes over the first skip jobs and looks
// at up to job.MaxBatch.
type Reclaimer interface {
	Reclaim(ctx context.Context, partition int, w job.Watch, skip int) ([]job.Reclaimed, error)
}

// The paces of the watches. A dead PUBLIC worker is found within its heartbeat timeout of 3 s, the 3 s until the
// next look, and the 2 s between the two looks.
var (
	CrashedPace = loop.Pace{Floor: 3 * time.Second, Ceiling: 60 * time.Second}
	StuckPace   = loop.Pace{Floor: 5 * time.Second, Ceiling: 120 * time.Second}
)

// secondLook is how soon the next look follows a look that found newly expired jobs: a little more than the
// script's patience.
const secondLook = 2*time.Second + 50*time.Millisecond

// maxPages is how many script calls of job.MaxBatch one run makes per partition, so that no partition delays the
// others for ever.
const maxPages = 100

// Watch reclaims the jobs of workers that crashed or hang. It keeps its own delay and shares no counter with the
// gate.
type Watch struct {
	*loop.Loop
	kind       job.Watch
	pace       loop.Pace
	queue      Reclaimer
	partitions int
	log        *slog.Logger
	wait       atomic.Int64 // the delay between looks, doubled and halved by Pace
	taken      atomic.Int64
	observe    func(w job.Watch, r job.Reclaimed)
}

// NewWatch makes one of the two watches. It calls observe for each job that it reclaimed.
func NewWatch(
	kind job.Watch,
	pace loop.Pace,
	q Reclaimer,
	partitions int,
	observe func(w job.Watch, r job.Reclaimed),
	log *slog.Logger,
) *Watch {
	w := &Watch{
		kind:       kind,
		pace:       pace,
		queue:      q,
		partitions: partitions,
		observe:    observe,
		log:        log.With("watch", string(kind)),
	}
	w.wait.Store(int64(pace.Floor))
	w.Loop = loop.New(w.runOnce)
	return w
}

// Delay returns the present delay between looks.
func (w *Watch) Delay() time.Duration { return time.Duration(w.wait.Load()) }

// Taken returns how many jobs this watch has reclaimed.
func (w *Watch) Taken() int64 { return w.taken.Load() }

func (w *Watch) runOnce(ctx context.Context) time.Duration {
	before := w.taken.Load()
	suspects, more, err := w.look(ctx)
	if ctx.Err() != nil {
		return w.Delay()
	}
	wait := w.pace.Next(w.Delay(), err != nil)
	w.wait.Store(int64(wait))
	if err != nil {
		w.log.Warn("the watch could not look for expired jobs", "err", err, "next_in", wait)
		return wait
	}
	if more && w.taken.Load() > before {
		return 0 // a backlog: the jobs behind it have not been looked at
	}
	if suspects {
		return min(wait, secondLook)
	}
	return wait
}

// look looks at the expired jobs once, up to maxPages calls per partition. It says whether any job must be looked
// at again, and whether there are more.
func (w *Watch) look(ctx context.Context) (suspects, more bool, err error) {
	var problems []error
	for p := range w.partitions {
		skip := 0
		for n := range maxPages {
			page, err := w.page(ctx, p, skip)
			if err != nil {
				problems = append(problems, err)
				break
			}
			stayed := 0
			for _, r := range page {
				if r.Word == job.Suspect {
					stayed++
					continue
				}
				w.taken.Add(1)
				w.observe(w.kind, r)
			}
			w.tell(page)
			suspects = suspects || stayed > 0
			skip += stayed
			if len(page) < job.MaxBatch {
				break
			}
			more = more || n == maxPages-1
		}
	}
	return suspects, more, errors.Join(problems...)
}

// tell logs the jobs that one call reclaimed: one line for each outcome and cause, with the id of the first job.
func (w *Watch) tell(page []job.Reclaimed) {
	for _, word := range []job.Word{job.OK, job.Discarded, job.WasCancelled, job.Quarantined} {
		for _, cause := range []job.Cause{job.HeartbeatStopped, job.MaxTimeExceeded, ""} {
			jobs, first := 0, job.ID("")
			for _, r := range page {
				if r.Word == word && r.Cause == cause {
					jobs, first = jobs+1, cmp.Or(first, r.ID)
				}
			}
			if jobs > 0 {
				cause := string(cmp.Or(cause, w.kind.Cause()))
				w.log.Warn("took jobs back", "jobs", jobs, "first", first, "cause", cause, "outcome", string(word))
			}
		}
	}
}

func (w *Watch) page(ctx context.Context, partition, skip int) ([]job.Reclaimed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return w.queue.Reclaim(ctx, partition, w.kind, skip)
}
