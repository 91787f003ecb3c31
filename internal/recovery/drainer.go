package recovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Outbox hands out ended jobs that SQL does not have yet, and keeps them from other takers for a while.
type Outbox interface {
	TakeOutbox(ctx context.Context, partition, limit int) ([]job.Outcome, error)
}

// Recorder writes outcomes to SQL and acknowledges them to Redis. A nil error means that every one that SQL would take
// is there.
type Recorder interface {
	Record(ctx context.Context, outcomes []job.Outcome) error
}

// drainPace: an outcome that did not take the short way is in SQL within about half a second; while SQL is down a take
// is tried every five seconds at most, so that few outcomes sit out the lease of a take in vain.
var drainPace = loop.Pace{Floor: 500 * time.Millisecond, Ceiling: 5 * time.Second}

// mostTakes is how many takes share one transaction of SQL's while it serves: where a statement takes long, what counts
// is how many outcomes each carries. After a failure it is one take, so that few outcomes sit out a lease in vain.
const mostTakes = 5

// recordTimeout bounds one batch's way to SQL; the outbox keeps what was taken from others for longer than that.
const recordTimeout = 8 * time.Second

// Drainer takes what nobody acknowledged out of the outbox to SQL: dead letters, cancellations, retried jobs, and what
// a crash left.
type Drainer struct {
	*loop.Loop
	outbox     Outbox
	recorder   Recorder
	partitions int
	log        *slog.Logger
	wait       time.Duration
	takes      int // of the next batch
}

// NewDrainer makes a drainer.
func NewDrainer(o Outbox, r Recorder, partitions int, log *slog.Logger) *Drainer {
	d := &Drainer{outbox: o, recorder: r, partitions: partitions, log: log, wait: drainPace.Floor, takes: 1}
	d.Loop = loop.New(d.runOnce)
	return d
}

// Stop ends the loop and drains once more, so that what a stopping pool left in the outbox is in SQL before the process
// goes. What ctx does not leave time for stays in the outbox.
func (d *Drainer) Stop(ctx context.Context) error {
	running := d.Running()
	if err := d.Loop.Stop(ctx); err != nil || !running {
		return err
	}
	return d.drain(ctx, ctx)
}

// runOnce begins nothing more once the loop stops, but what is under way goes to its end: what was taken and given up
// would sit out the lease of its take, and the last drain would not find it.
func (d *Drainer) runOnce(ctx context.Context) time.Duration {
	err := d.drain(ctx, context.WithoutCancel(ctx))
	d.wait = drainPace.Next(d.wait, err != nil)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("drain failed", "err", err, "next_in", d.wait)
	}
	return d.wait
}

// drain brings what is in the outbox to SQL until ctx ends; each batch has the context of the calls.
func (d *Drainer) drain(ctx, calls context.Context) error {
	var problems []error
	for p := range d.partitions {
		for range maxPages { // then the next partition has its turn
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

// batch brings a few takes to SQL as one, and says whether there may be more. What was taken goes there also if a later
// take fails.
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
