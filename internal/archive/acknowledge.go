package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ackTimeout is far above the deadline of a Redis call. It only keeps a broken Acknowledger from blocking the
// writer for ever.
const ackTimeout = 5 * time.Second

// acknowledge tells Redis that SQL has a batch. The outbox keeps each outcome whose acknowledge fails: the drainer
// delivers it again, record finds its row, and it is acknowledged then.
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

// acknowledged settles the Record calls that wait for these outcomes.
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
