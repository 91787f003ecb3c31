package recovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Outbox hands out ended jobs that SQL does not have yet, and keeps them from other takers for a while.
type Outbox interface {
	TakeOutbox(ctx context.Context, partition, limit int) ([]job.Outcome, error)
}

// Recorder writes outcomes to SQL and acknowledges them to Redis. A nil error means that every one that SQL would take is there.
type Recorder interface {
	Record(ctx context.Context, outcomes []job.Outcome) error
}

// drainPace: an outcome that did not take the short way is in SQL within about half a second; while SQL is down a take is tried every
// five seconds at most, so that few outcomes sit out the lease of a take in vain.
var drainPace = Pace{Floor: 500 * time.Millisecond, Ceiling: 5 * time.Second}

// recordTimeout bounds one batch's way to SQL; the outbox keeps what was taken from others for longer than that.
const recordTimeout = 8 * time.Second

// Drainer takes what nobody acknowledged out of the outbox to SQL: dead letters, cancellations, retried jobs, and what a crash left.
type Drainer struct {
	*Loop
	outbox     Outbox
	recorder   Recorder
	partitions int
	log        *slog.Logger
	wait       time.Duration
}

// NewDrainer makes a drainer.
func NewDrainer(o Outbox, r Recorder, partitions int, log *slog.Logger) *Drainer {
	d := &Drainer{outbox: o, recorder: r, partitions: partitions, log: log, wait: drainPace.Floor}
	d.Loop = NewLoop(d.runOnce)
	return d
}

// Stop ends the loop and drains once more, so that what a stopping pool left in the outbox is in SQL before the process goes. What ctx does
// not leave time for stays in the outbox.
func (d *Drainer) Stop(ctx context.Context) error {
	running := d.running()
	if err := d.Loop.Stop(ctx); err != nil || !running {
		return err
	}
	return d.drain(ctx)
}

func (d *Drainer) runOnce(ctx context.Context) time.Duration {
	err := d.drain(ctx)
	d.wait = drainPace.next(d.wait, err != nil)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("drain failed", "err", err, "next_in", d.wait)
	}
	return d.wait
}

func (d *Drainer) drain(ctx context.Context) error {
	var problems []error
	for p := range d.partitions {
		for range maxPages { // then the next partition has its turn
			n, err := d.batch(ctx, p)
			if err != nil {
				problems = append(problems, err)
			}
			if err != nil || n == 0 {
				break
			}
		}
	}
	return errors.Join(problems...)
}

func (d *Drainer) batch(ctx context.Context, partition int) (int, error) {
	take, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	outcomes, err := d.outbox.TakeOutbox(take, partition, job.MaxBatch)
	if err != nil || len(outcomes) == 0 {
		return 0, err
	}
	record, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return len(outcomes), d.recorder.Record(record, outcomes)
}
