package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Heartbeat extends leases of a key, and stores their checkpoints. It returns an answer per lease, in their order: a
// lease that cannot be opened is LOST. The error is that of the store if no lease of some call was extended.
func (r *Room) Heartbeat(ctx context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error) {
	type entry struct {
		job.Beat
		at int
	}
	answers := make([]job.WorkerPulse, len(beats))
	entries, opened := make([]entry, 0, len(beats)), make([]job.LeaseRef, len(beats))
	for i, b := range beats {
		h, err := r.open(ctx, key, b.Sealed)
		if errors.Is(err, job.ErrLeaseLost) || errors.Is(err, job.ErrBadLease) {
			if answers[i].Word = job.Lost; !errors.Is(err, job.ErrLeaseLost) {
				answers[i].Err = err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		answers[i].Word, answers[i].For, opened[i] = job.Lost, h.For, h.Ref()
		if b.Extend > 0 {
			answers[i].For = b.Extend
		}
		entries = append(entries, entry{job.Beat{
			LeaseRef: h.Ref(), Timeout: answers[i].For, Save: b.Save, Checkpoint: b.Checkpoint,
			Step: b.Step, Progress: b.Progress,
		}, i})
	}
	batches := job.Batches(entries, func(e *entry) job.ID { return e.ID },
		func(e *entry) int { return 128 + len(e.Checkpoint) })
	for partition, batch := range batches {
		call := make([]job.Beat, len(batch))
		for i := range batch {
			call[i] = batch[i].Beat
		}
		var words []job.Word
		var sent time.Time
		err := r.again(func(ctx context.Context) (err error) {
			select {
			case r.beats <- struct{}{}:
				defer func() { <-r.beats }()
			case <-ctx.Done():
				return fmt.Errorf("heartbeat: %w: too many at once", job.ErrUnavailable)
			}
			sent = time.Now()
			words, err = r.Queue.Heartbeat(ctx, partition, call)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, word := range words {
			a := &answers[batch[i].at]
			a.Word, a.Until = word, sent.Add(a.For)
		}
	}
	if err := r.keepSeats(key, opened, answers); err != nil {
		return nil, err
	}
	for i := range answers {
		if answers[i].Word == job.Lost {
			answers[i].For, answers[i].Until = 0, time.Time{}
		}
	}
	return answers, nil
}
