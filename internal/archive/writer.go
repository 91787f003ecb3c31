package archive

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Acknowledger tells Redis that SQL has the outcomes of a batch: at most job.MaxBatch, of one partition.
type Acknowledger interface {
	Acknowledge(ctx context.Context, partition int, batch []job.Ack) ([]job.Word, error)
}

// WriterOptions bound the offered outcomes that wait in memory; zero means the default. Outcomes of Record wait in
// addition, without a bound here: each caller has one call.
type WriterOptions struct {
	Limit      int // outcomes; 20,000
	LimitBytes int // 64 MiB
	Log        *slog.Logger

	// Owes returns the job that is owed once SQL has an outcome, if any; nil = none. The transaction that inserts the
	// outcome also writes the owed job's row in accepted_jobs, with Incarnation "": no Redis has it yet. Owes may be
	// called several times for one outcome.
	Owes func(*job.Outcome) (job.JournalRow, bool)

	// Give hands rows of owed jobs to Redis, at most 500 at a time; nil = nothing is handed over. The rows were
	// written after since. Rows that Give cannot hand over stay, and the reconciler finds them. Give has 5 s.
	Give func(ctx context.Context, rows []job.JournalRow, since time.Time)
}

// Writer is the one SQL writer of outcomes of a process. All waiting outcomes, up to 500, go into the next
// transaction. There is no timer, so a single outcome is written at once. While a transaction is under way, the
// outcomes of the one before are acknowledged.
//
// The writer never holds the only copy: an outcome stays in the outbox until it is acknowledged, so the drainer
// delivers again what the writer gives up. Outcomes from the drainer go first: the drainer has taken them out of
// the outbox for a limited time, and its callers wait.
type Writer struct {
	archive *Archive
	acks    Acknowledger
	opts    WriterOptions
	log     *slog.Logger

	mu       sync.Mutex
	backlog  backlog
	refused  refusals
	running  bool // Offer and Record are accepted
	stopping bool
	cancel   context.CancelFunc
	done     chan struct{} // nil before Start
	wake     loop.Signal   // set by new outcomes and by Stop
	written  chan []settled
	next     chan struct{} // closed and replaced whenever SQL has another batch

	stats counts
}

type counts struct {
	written, refused, differences, batches, unacknowledged, left atomic.Int64
}

// Stats are the writer's counts since its start, and its present state.
type Stats struct {
	Waiting        int   // outcomes in memory that SQL does not have yet
	Written        int64 // outcomes that this writer inserted
	Refused        int64 // times that SQL refused a row for its data
	Differences    int64 // outcomes for which SQL already had another ending
	Batches        int64 // transactions that inserted outcomes
	Unacknowledged int64 // outcomes whose acknowledge failed; the drainer repeats them
	Left           int64 // offered outcomes that waited too long for SQL; the outbox has them
	Down           bool  // SQL does not serve now
}

// NewWriter makes a writer. The writer does nothing before Start.
func NewWriter(a *Archive, acks Acknowledger, o WriterOptions) *Writer {
	if o.Limit <= 0 {
		o.Limit = 20_000
	}
	if o.LimitBytes <= 0 {
		o.LimitBytes = 64 << 20
	}
	if o.Log == nil {
		o.Log = a.db.Log
	}
	return &Writer{
		archive: a, acks: acks, opts: o, log: o.Log, wake: loop.NewSignal(), written: make(chan []settled, 1),
		next: make(chan struct{}), backlog: newBacklog(),
	}
}

// Start begins to write, until Stop. The end of ctx does not stop it.
func (w *Writer) Start(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done != nil || w.stopping {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done, w.running = cancel, make(chan struct{}), true
	acked := make(chan struct{})
	go func() {
		defer close(acked)
		for batch := range w.written {
			w.acknowledge(ctx, batch)
		}
	}()
	go func() {
		defer close(w.done)
		w.loop(ctx)
		close(w.written)
		<-acked
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.backlog.dropRecorded(fmt.Errorf("record: the writer stopped: %w", job.ErrUnavailable))
	}()
	return nil
}

// Stop refuses new outcomes, writes and acknowledges what waits, and returns. When ctx ends first, or SQL is down,
// Stop returns an error and the rest stays in the outbox.
func (w *Writer) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.running, w.stopping = false, true
	done, cancel := w.done, w.cancel
	w.mu.Unlock()
	if done == nil {
		return nil
	}
	w.wake.Set()
	select {
	case <-done:
	case <-ctx.Done():
		cancel()
		<-done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.backlog.Len(); n > 0 {
		return fmt.Errorf("stop the SQL writer: %d outcomes are left to the outbox", n)
	}
	return nil
}

// Offer hands over an outcome to be written soon. It never blocks. It returns false if the writer is full or not
// running, or if SQL refused this very row a short while ago: the outcome stays in the outbox.
func (w *Writer) Offer(o job.Outcome) bool {
	now := time.Now()
	e := newEntry(o, nil, now)
	w.mu.Lock()
	full := w.backlog.Len() >= w.opts.Limit || w.backlog.Bytes()+e.bytes > w.opts.LimitBytes
	if !w.running || full || !w.admits(&o, now) {
		w.mu.Unlock()
		return false
	}
	w.backlog.Add(e)
	w.mu.Unlock()
	w.wake.Set()
	return true
}

// Record waits until SQL has the outcomes and Redis knows it, and then returns nil. A row that SQL refuses for its
// data is no error: it is skipped, and backs off by itself, so that it does not hold up the others. If SQL is
// down, or ctx ends, the error is job.ErrUnavailable, and outcomes that are not in a transaction by then are not
// written. If only the acknowledging failed, Record returns that error.
func (w *Writer) Record(ctx context.Context, outcomes []job.Outcome) error {
	r := &recording{done: make(chan struct{})}
	entries, now := make([]*entry, 0, len(outcomes)), time.Now()
	w.mu.Lock()
	if !w.running {
		w.mu.Unlock()
		return fmt.Errorf("record: the writer does not run: %w", job.ErrUnavailable)
	}
	for i := range outcomes {
		if w.admits(&outcomes[i], now) {
			entries = append(entries, newEntry(outcomes[i], r, now))
		}
	}
	r.left = len(entries)
	w.backlog.AddFirst(entries...)
	waits := r.left > 0
	w.mu.Unlock()
	if !waits {
		return nil
	}
	w.wake.Set()
	select {
	case <-r.done:
		w.mu.Lock()
		defer w.mu.Unlock()
		return r.err
	case <-ctx.Done():
		err := database.Unavailable("record", ctx.Err())
		w.mu.Lock()
		defer w.mu.Unlock()
		// or a slow database would collect entries that their callers gave up
		w.backlog.drop(func(of *recording) bool { return of == r }, err)
		return err
	}
}

// admits says whether an outcome may be written now. The caller holds the lock.
func (w *Writer) admits(o *job.Outcome, now time.Time) bool {
	if !o.Status.Ended() {
		w.log.Error("an outcome is not an ending", "job_id", o.ID, "status", o.Status)
		w.stats.refused.Add(1)
		return false
	}
	return !w.refused.holds(keyOf(o), now)
}

// Written returns a channel that is closed when SQL has the next batch of outcomes.
func (w *Writer) Written() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// Stats reads the counts.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	waiting := w.backlog.Len()
	w.mu.Unlock()
	s := &w.stats
	return Stats{
		Waiting: waiting, Written: s.written.Load(), Refused: s.refused.Load(), Differences: s.differences.Load(),
		Batches: s.batches.Load(), Unacknowledged: s.unacknowledged.Load(), Left: s.left.Load(),
		Down: w.archive.db.Down(),
	}
}
