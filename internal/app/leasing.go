package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/leasing"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/worker"
)

// elsewhere is the queue from which workers outside this process get their jobs. In embedded mode their claims are
// recorded in SQL, like those of the pool.
type elsewhere struct {
	worker.Queue
	redis *queue.Queue
}

func (e elsewhere) CompleteElsewhere(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply,
	error) {
	return e.redis.CompleteElsewhere(ctx, partition, batch)
}

func (e elsewhere) Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error) {
	return e.redis.Heartbeat(ctx, partition, batch)
}

func (e elsewhere) Log(ctx context.Context, partition int, batch []job.LogEntry) ([]job.Word, error) {
	return e.redis.Log(ctx, partition, batch)
}

// wireLeasing makes the part that serves workers outside tierq's processes.
func (v *server) wireLeasing() {
	c := v.config
	v.leasing = leasing.New(leasing.Config{
		Partitions: c.Partitions, PriorityBase: c.PriorityBase, Strict: v.queue.Strict(), ResultLimit: c.ResultLimit,
		Plans: v.plans, Asks: &v.asks,
		Queue: elsewhere{v.work(), v.queue}, Doorbell: v.queue, Sealer: v.view, Observe: v.metrics,
		Ended: v.endedElsewhere, Log: v.log, Seats: v.queue, Most: v.doors.Leases,
		LogsOff: v.queueBook.LogsOff,
	})
}

// endedElsewhere makes the drainer write the end of a job to SQL. In embedded mode it also waits for that: the worker
// outlives a kill of this process, and a job of which it was told that it ended must not run again.
func (v *server) endedElsewhere(ctx context.Context, id job.ID) error {
	v.drainer.Wake()
	if !v.config.Embedded() {
		return nil
	}
	j, err := v.ledger.Find(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound): // SQL had it, and keeps it no longer
		return nil
	case err == nil && j.Status == job.Processing:
		return fmt.Errorf("%w: SQL does not have the job's end yet", job.ErrUnavailable)
	}
	return err
}
