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

// JournalOptions bound what waits in memory, and say what the rows need; zero means the default.
type JournalOptions struct {
	Limit      int // rows that wait; 8,192
	LimitBytes int // 64 MiB
	// of one transaction, its repeats after deadlocks included; 1 s, because a submit waits for it
	Timeout  time.Duration
	KeepKeys time.Duration // how long an Idempotency-Key stands for its job; 1 h
	Log      *slog.Logger

	// Incarnation is the life of a partition's data that is known now, for the row of a claimed job; nil = "". It may be
	// an older one than the claim's, never a newer one: the job would not be missed when the newer one does not have it.
	Incarnation func(partition int) string
	// Observe hears how each transaction ended: nil, or the error of a database that could not serve. A row that SQL
	// refuses for its data is none. It is called one at a time, and must not block.
	Observe func(err error)
}

// Journal is a process' writer of the accept journal. What waits goes into the next transaction, up to 500 rows; there
// is no timer, so a lone row waits for nobody. Each call returns when its rows are committed. Errors say how much is
// known:
//
//   - job.ErrUnavailable: certainly nothing of it was written, and will not be;
//   - job.ErrAmbiguous: some or all of it may have been. Doing it again is right.
//
// When ctx ends, what has not been sent is taken back; it does not end a transaction.
type Journal struct {
	archive *Archive
	opts    JournalOptions
	log     *slog.Logger
	stamps  *stamps

	mu       sync.Mutex
	waiting  loop.Batcher[*noted]
	running  bool // calls are served
	stopping bool
	cancel   context.CancelFunc
	done     chan struct{} // nil before Start
	wake     loop.Signal   // something came, or Stop

	written, batches, refused atomic.Int64
}

// JournalStats is what a journal did so far, and how it stands.
type JournalStats struct {
	Waiting int   // rows in memory that SQL does not have yet
	Written int64 // rows and changes of rows that were committed
	Batches int64 // transactions that were committed
	Refused int64 // rows that SQL refused for their data
}

// NewJournal makes the journal of an archive that was opened with Options.Journal. It does nothing before Start.
func NewJournal(a *Archive, o JournalOptions) *Journal {
	if o.Limit <= 0 {
		o.Limit = 8192
	}
	if o.LimitBytes <= 0 {
		o.LimitBytes = 64 << 20
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Second
	}
	if o.KeepKeys <= 0 {
		o.KeepKeys = time.Hour
	}
	if o.Log == nil {
		o.Log = a.db.Log
	}
	if o.Incarnation == nil {
		o.Incarnation = func(int) string { return "" }
	}
	if o.Observe == nil {
		o.Observe = func(error) {}
	}
	return &Journal{
		archive: a, opts: o, log: o.Log, stamps: newStamps(a, o.Timeout), wake: loop.NewSignal(),
		waiting: loop.Batcher[*noted]{MaxEntries: maxBatch, MaxBytes: maxBatchBytes, Size: (*noted).bytes},
	}
}

// Submit writes rows of submits that Redis is about to be asked for, and their Idempotency-Keys. A row whose key stands
// for another job is not written: the answer names that one.
func (j *Journal) Submit(ctx context.Context, rows []job.JournalRow) ([]job.KeyHolder, error) {
	notes := make([]*noted, len(rows))
	for i := range rows {
		l := rows[i] // the caller may go on with its own
		notes[i] = &noted{kind: submitNote, row: &l}
	}
	if err := j.put(ctx, "journal submits", notes); err != nil {
		return nil, err
	}
	held := make([]job.KeyHolder, len(notes))
	for i, n := range notes {
		held[i] = n.holder
	}
	return held, nil
}

// Submitted hears that Redis has taken submits: of a row it reads the id, the arrival, when the job is due, and the
// run. It returns at once, and SQL is told within a moment, if SQL serves.
func (j *Journal) Submitted(rows []job.JournalRow) { j.stamps.add(rows) }

// TakeBack removes the rows of submits that Redis refused, and their keys; of a row it reads the id and the key. It
// says of each whether it is gone by this: false for a row that is not the submit's any more, or not there.
func (j *Journal) TakeBack(ctx context.Context, rows []job.JournalRow) ([]bool, error) {
	notes := make([]*noted, len(rows))
	for i := range rows {
		notes[i] = &noted{
			kind: backNote,
			row:  &job.JournalRow{Job: job.Job{ID: rows[i].ID}, Idempotency: rows[i].Idempotency},
		}
	}
	if err := j.put(ctx, "take back submits", notes); err != nil {
		return nil, err
	}
	gone := make([]bool, len(notes))
	for i, n := range notes {
		gone[i] = n.gone
	}
	return gone, nil
}

// Holder is the job that an Idempotency-Key stands for. It changes nothing.
func (j *Journal) Holder(ctx context.Context, key job.Idempotency) (job.KeyHolder, error) {
	return j.archive.Holder(ctx, key)
}

// Claimed notes that jobs are in somebody's hands: attempt, retries, times and worker. What comes with a lower attempt
// than the row's, or the same, changes nothing.
func (j *Journal) Claimed(ctx context.Context, leases []job.Lease) error {
	notes := make([]*noted, len(leases))
	for i := range leases {
		l := job.JournalRow{Job: leases[i].Job, Incarnation: j.opts.Incarnation(leases[i].ID.Partition())}
		notes[i] = &noted{kind: claimNote, row: &l}
	}
	return j.put(ctx, "journal claims", notes)
}

// Waits notes that attempts ended and their jobs wait again. It changes a row only if that attempt is the one that
// runs.
func (j *Journal) Waits(ctx context.Context, waits []job.Waits) error {
	notes := make([]*noted, len(waits))
	for i := range waits {
		w := waits[i]
		notes[i] = &noted{kind: waitsNote, waits: &w}
	}
	return j.put(ctx, "journal waits", notes)
}

// Down says whether the last transaction, or look, found the database unable to serve. While it is, the journal looks
// again by itself.
func (j *Journal) Down() bool { return j.archive.db.Down() }

// Stats reads the counts.
func (j *Journal) Stats() JournalStats {
	j.mu.Lock()
	waiting := j.waiting.Len()
	j.mu.Unlock()
	return JournalStats{Waiting: waiting, Written: j.written.Load(), Batches: j.batches.Load(), Refused: j.refused.Load()}
}

// put hands notes to the loop and waits until they are dealt with.
func (j *Journal) put(ctx context.Context, verb string, notes []*noted) error {
	if len(notes) == 0 {
		return nil
	}
	c := &call{left: len(notes), done: make(chan struct{})}
	for _, n := range notes {
		n.of = c
	}
	j.mu.Lock()
	switch bytes := weigh(notes); {
	case !j.running:
		j.mu.Unlock()
		return fmt.Errorf("%s: the journal does not run: %w", verb, job.ErrUnavailable)
	case j.waiting.Len()+len(notes) > j.opts.Limit || j.waiting.Bytes()+bytes > j.opts.LimitBytes:
		j.mu.Unlock()
		return fmt.Errorf("%s: too much waits for SQL: %w", verb, job.ErrUnavailable)
	}
	j.waiting.Add(notes...)
	j.mu.Unlock()
	j.wake.Set()
	select {
	case <-c.done:
	case <-ctx.Done():
		j.mu.Lock()
		j.drop(c, database.Unavailable("wait for SQL", ctx.Err()))
		left := c.left
		j.mu.Unlock()
		if left > 0 {
			return database.Ambiguous(verb, ctx.Err())
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.verdict(verb)
}

// Start begins to write, until Stop; it does not end with ctx.
func (j *Journal) Start(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done != nil || j.stopping {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel, j.done, j.running = cancel, make(chan struct{}), true
	_ = j.stamps.loop.Start(ctx) // it never fails
	go func() {
		defer close(j.done)
		defer cancel()
		j.loop(ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.drop(nil, fmt.Errorf("the journal stopped: %w", job.ErrUnavailable))
	}()
	return nil
}

// Stop refuses what comes from now on, writes what waits, and ends. When ctx ends first the rest is given up: its
// callers are told.
func (j *Journal) Stop(ctx context.Context) error {
	j.mu.Lock()
	j.running, j.stopping = false, true
	done, cancel := j.done, j.cancel
	j.mu.Unlock()
	if done == nil {
		return nil
	}
	if err := j.stamps.loop.Stop(ctx); err == nil {
		j.stamps.runOnce(ctx)
	}
	j.wake.Set()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		cancel()
		<-done
		return fmt.Errorf("stop the journal: %w", ctx.Err())
	}
}
