package sandbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// archive stands for SQL: it stores outcomes, the first of each generation, and then acknowledges them to Redis.
// The drainer delivers what is in the outbox; the completed first attempt of a job is offered directly by the
// pool.
type archive struct {
	*loop.Loop  // records the offered outcomes
	acknowledge func(ctx context.Context, partition int, batch []job.Ack) ([]job.Word, error)
	wake        func() // wakes the drainer

	mu      sync.Mutex
	rows    map[rowKey]job.Outcome
	waiting []job.Outcome // offered
}

type rowKey struct {
	id         job.ID
	generation int
}

func newArchive(acknowledge func(ctx context.Context, partition int, batch []job.Ack) ([]job.Word, error)) *archive {
	a := &archive{acknowledge: acknowledge, rows: map[rowKey]job.Outcome{}}
	a.Loop = loop.New(a.runOnce)
	return a
}

// Offer implements worker.Recorder.
func (a *archive) Offer(o job.Outcome) bool {
	a.mu.Lock()
	a.waiting = append(a.waiting, o)
	a.mu.Unlock()
	a.Loop.Wake()
	return true
}

// Wake implements worker.Recorder: something is in the outbox.
func (a *archive) Wake() { a.wake() }

const (
	archiveRest  = time.Minute // Offer wakes it earlier
	archiveAgain = 200 * time.Millisecond
)

func (a *archive) runOnce(ctx context.Context) time.Duration {
	a.mu.Lock()
	batch := a.waiting
	a.waiting = nil
	a.mu.Unlock()
	if err := a.Record(ctx, batch); err != nil {
		a.mu.Lock()
		a.waiting = slices.Concat(batch, a.waiting)
		a.mu.Unlock()
		return archiveAgain
	}
	return archiveRest
}

// Record implements recovery.Recorder.
func (a *archive) Record(ctx context.Context, outcomes []job.Outcome) error {
	for part := range slices.Chunk(outcomes, job.MaxBatch) {
		acks := make([]job.Ack, len(part))
		a.mu.Lock()
		for i, o := range part {
			key := rowKey{o.ID, o.Generation}
			if _, there := a.rows[key]; !there {
				a.rows[key] = o
			}
			acks[i] = job.Ack{ID: o.ID, Generation: o.Generation, Attempt: o.Attempt, Status: a.rows[key].Status}
		}
		a.mu.Unlock()
		if _, err := a.acknowledge(ctx, 0, acks); err != nil {
			return err
		}
	}
	return nil
}

// row returns the outcome of a generation.
func (a *archive) row(id job.ID, generation int) (job.Outcome, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.rows[rowKey{id, generation}]
	return o, ok
}
