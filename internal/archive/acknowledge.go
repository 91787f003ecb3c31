package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ackTimeout is far above a Redis call's own deadline; it only keeps a broken Acknowledger from holding the writer for
// ever.
const ackTimeout = 5 * time.Second

// acknowledge tells Redis of a batch. What fails is left to the outbox: the drainer brings it again, the insert finds
// its row, and it is acknowledged then.
func (w *Writer) acknowledge(ctx context.Context, batch []settled) {
	batch, owed, since := w.debts(ctx, batch)
	id := func(s *settled) job.ID { return s.ID }
	for partition, part := range job.Batches(batch, id, func(*settled) int { return 0 }) {
		acks := make([]job.Ack, len(part))
		for i, s := range part {
			acks[i] = job.Ack{ID: s.ID, Generation: s.Generation, Attempt: s.Attempt, Status: s.held, Known: s.known}
		}
		call, cancel := context.WithTimeout(ctx, ackTimeout)
		_, err := w.acks.Acknowledge(call, partition, acks)
		cancel()
		if err != nil {
			err = fmt.Errorf("acknowledge: %w", err)
			w.log.Warn("outcomes are in SQL, but Redis could not be told", "jobs", len(part), "partition", partition, "err", err)
		}
		w.acknowledged(part, err)
	}
	w.give(ctx, owed, since)
}

// acknowledged ends the waiting of those who asked for these outcomes.
func (w *Writer) acknowledged(part []settled, err error) {
	if err != nil {
		w.stats.unacknowledged.Add(int64(len(part)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range part {
		s.of.settle(err)
	}
}
