package leasing

import (
	"context"
	"errors"

	"github.com/tierq/tierq/internal/job"
)

// AddLines adds lines to the logs of a key's leases, and returns an answer per lease, in their order: a lease that
// cannot be opened is LOST. The error is that of the store: some lines may be written, and the same call may be sent
// again.
func (r *Room) AddLines(ctx context.Context, key string, logs []job.WorkerLog) ([]job.WorkerLogged, error) {
	type entry struct {
		job.LogEntry
		at int
	}
	answers := make([]job.WorkerLogged, len(logs))
	var entries []entry
	for i := range logs {
		h, err := r.open(ctx, key, logs[i].Sealed)
		switch {
		case errors.Is(err, job.ErrLeaseLost):
			answers[i].Word = job.Lost
			continue
		case errors.Is(err, job.ErrBadLease):
			answers[i].Err = err
			continue
		case err != nil:
			return nil, err
		}
		answers[i].Word = job.OK
		if r.LogsOff != nil && r.LogsOff(h.QueueName()) {
			answers[i].Word = job.Off
			continue
		}
		for n, line := range logs[i].Lines {
			line.LeaseRef = h.Ref()
			if logs[i].From > 0 {
				line.Number = logs[i].From + n
			}
			entries = append(entries, entry{line, i})
		}
	}
	batches := job.Batches(entries, func(e *entry) job.ID { return e.ID }, func(e *entry) int { return e.Size() })
	for partition, batch := range batches {
		call := make([]job.LogEntry, len(batch))
		for i := range batch {
			call[i] = batch[i].LogEntry
		}
		var words []job.Word
		err := r.again(func(ctx context.Context) (err error) {
			words, err = r.Queue.Log(ctx, partition, call)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, word := range words {
			if word == job.Lost {
				answers[batch[i].at].Word = job.Lost
			}
		}
	}
	return answers, nil
}
