package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// writer is the stand-in for archive.Writer. It writes outcomes to SQL and then acknowledges them in Redis, never
// before.
type writer struct {
	process *process
	wake    chan struct{}
	over    chan struct{} // closed by Stop
	done    chan struct{}

	mu       sync.Mutex
	waiting  []job.Outcome
	stopping bool
}

func newWriter(p *process) *writer {
	return &writer{process: p, wake: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
}

// Offer queues a completed first attempt for the next write. It returns false after Stop.
func (w *writer) Offer(o job.Outcome) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return false
	}
	w.waiting = append(w.waiting, o)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// Wake wakes the drainer, because the outbox has a job.
func (w *writer) Wake() { w.process.drainer.Wake() }

// Record writes a batch to SQL and then acknowledges it. After that it gives Redis what SQL owes because of the batch.
func (w *writer) Record(ctx context.Context, batch []job.Outcome) error {
	what := fmt.Sprint(len(batch))
	for i := range batch {
		what += " " + string(batch[i].ID) + " " + strconv.Itoa(batch[i].Attempt)
	}
	since, released := time.Now(), []job.JournalRow(nil)
	commit := func() (err error) {
		released, err = ask(ctx, w.process, "sql record", what, func(*database) ([]job.JournalRow, error) {
			return w.process.world.record(batch), nil
		})
		return err
	}
	acknowledge := func() error {
		if w.process.world.OwesFirst && w.process.world.isFull() {
			return fmt.Errorf("callback: %w", job.ErrUnavailable)
		}
		return w.acknowledge(ctx, batch)
	}
	if w.process.world.ackFirst {
		commit, acknowledge = acknowledge, commit
	}
	if err := commit(); err != nil {
		return err
	}
	err := acknowledge()
	if len(released) > 0 {
		_, _ = w.process.ledger.GiveRows(ctx, released, since) // the reconciler gives what this does not
	}
	return err
}

func (w *writer) acknowledge(ctx context.Context, batch []job.Outcome) error {
	var problems []error
	id, none := func(o *job.Outcome) job.ID { return o.ID }, func(*job.Outcome) int { return 0 }
	for partition, part := range job.Batches(batch, id, none) {
		acks := make([]job.Ack, len(part))
		for i := range part {
			acks[i] = job.Ack{ID: part[i].ID, Generation: part[i].Generation, Attempt: part[i].Attempt, Status: part[i].Status}
		}
		if _, err := w.process.queue.Acknowledge(ctx, partition, acks); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// Start starts the writer's goroutine.
func (w *writer) Start(context.Context) error {
	go func() {
		defer close(w.done)
		for {
			select {
			case <-w.wake:
				w.write()
			case <-w.over:
				w.write()
				return
			}
		}
	}()
	return nil
}

// write records the outcomes that wait. Those that fail are left to the outbox.
func (w *writer) write() {
	w.mu.Lock()
	batch := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	_ = w.Record(ctx, batch)
}

// Stop records the outcomes that wait and ends the goroutine.
func (w *writer) Stop(context.Context) error {
	w.mu.Lock()
	if !w.stopping {
		w.stopping = true
		close(w.over)
	}
	w.mu.Unlock()
	<-w.done
	return nil
}
