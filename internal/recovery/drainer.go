package recovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Outbox returns ended jobs that SQL does not have yet, and hides them from other takers for a while.
type Outbox interface {
	TakeOutbox(ctx context.Context, partition, limit int) ([]job.Outcome, error)
}

// Recorder writes outcomes to SQL and acknowledges them to Redis. A nil error means that SQL has every outcome
// that it accepts.
type Recorder interface {
	Record(ctx context.Context, outcomes []job.Outcome) error
}

// drainPace is the pace of the drainer. An outcome that no process wrote from memory is in SQL within about half a
// second. While SQL is down the drainer takes outcomes at most every five seconds, because each failed take hides
// them from other drainers for a while.
var drainPace = loop.Pace{Floor: 500 * time.Millisecond, Ceiling: 5 * time.Second}

// mostTakes is how many takes share one transaction while SQL works, because large transactions help if each
// statement is slow. After a failure a transaction has one take, so that a further failure hides few outcomes.
const mostTakes = 5

// recordTimeout is the time limit for writing one batch to SQL. It is shorter than the time for which the outbox
// hides taken outcomes.
const recordTimeout = 8 * time.Second

// Drainer brings outcomes from the outbox to SQL that no process wrote from memory: dead letters, cancellations,
// retried jobs, and outcomes that a crash left.
type Drainer struct {
	*loop.Loop
	outbox     Outbox
	recorder   Recorder
	partitions int
	log        *slog.Logger
	wait       time.Duration
	takes      int // the number of takes of the next batch
}

// NewDrainer makes a drainer.
func NewDrainer(o Outbox, r Recorder, partitions int, log *slog.Logger) *Drainer {
	d := &Drainer{outbox: o, recorder: r, partitions: partitions, log: log, wait: drainPace.Floor, takes: 1}
	d.Loop = loop.New(d.runOnce)
	return d
}

// Stop ends the loop and drains once more, so that the outcomes of a stopping pool are in SQL before the process
// ends. Outcomes for which ctx leaves no time stay in the outbox.
func (d *Drainer) Stop(ctx context.Context) error {
	running := d.Running()
	if err := d.Loop.Stop(ctx); err != nil || !running {
		return err
	}
	return d.drain(ctx, ctx)
}

// runOnce begins no further batch once the loop stops, but completes the batch under way: outcomes that were taken
// and not written would stay hidden from the last drain.
func (d *Drainer) runOnce(ctx context.Context) time.Duration {
	err := d.drain(ctx, context.WithoutCancel(ctx))
	d.wait = drainPace.Next(d.wait, err != nil)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("taking outcomes from the outbox failed", "err", err, "next_in", d.wait)
	}
	return d.wait
}

// drain writes the outbox to SQL until it is empty or ctx ends. The calls of a batch have the context calls.
func (d *Drainer) drain(ctx, calls context.Context) error {
	var problems []error
	for p := range d.partitions {
		for range maxPages { // then the next partition is drained
			if ctx.Err() != nil {
				return errors.Join(append(problems, ctx.Err())...)
			}
			more, err := d.batch(calls, p)
			if err != nil {
				problems = append(problems, err)
			}
			if err != nil || !more {
				break
			}
		}
	}
	return errors.Join(problems...)
}

// batch writes the outcomes of a few takes to SQL together, and says whether there may be more. Outcomes that were
// taken are written even if a later take fails.
func (d *Drainer) batch(ctx context.Context, partition int) (more bool, err error) {
	var outcomes []job.Outcome
	takes := d.takes
	d.takes = 1
	for more = true; more && takes > 0 && err == nil; takes-- {
		var some []job.Outcome
		some, err = d.take(ctx, partition)
		more = len(some) > 0
		outcomes = append(outcomes, some...)
	}
	if len(outcomes) > 0 {
		record, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		err = errors.Join(err, d.recorder.Record(record, outcomes))
	}
	if err == nil {
		d.takes = mostTakes
	}
	return more, err
}

func (d *Drainer) take(ctx context.Context, partition int) ([]job.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.outbox.TakeOutbox(ctx, partition, job.MaxBatch)
}
