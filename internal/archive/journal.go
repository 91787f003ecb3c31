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

// JournalOptions bound the rows that wait in memory, and give what the rows need. Zero means the default.
type JournalOptions struct {
	Limit      int // rows that may wait; 8,192
	LimitBytes int // bytes that may wait; 64 MiB
	// for one transaction, including its repeats after deadlocks; 1 s, because a submit waits for it
	Timeout  time.Duration
	KeepKeys time.Duration // how long an Idempotency-Key stands for its job; 1 h
	Log      *slog.Logger

	// Incarnation returns the known incarnation of a partition's Redis, for the row of a claimed job; nil = always
	// "". It may be older than the incarnation of the claim, but never newer: with a newer one, a job that the newer
	// Redis does not have would not be missed.
	Incarnation func(partition int) string
	// Observe receives the result of each transaction: nil, or the error of a database that could not serve. A row
	// that SQL refuses for its data counts as no error. Calls do not overlap. Observe must not block.
	Observe func(err error)
}

// Journal writes the accept journal of one process. All waiting rows, up to 500, go into the next transaction.
// There is no timer, so a single row is written at once. Each call returns when its rows are committed. The errors
// say how much is known:
//
//   - job.ErrUnavailable: nothing of the call was written, and nothing will be;
//   - job.ErrAmbiguous: some or all of it may be written. Repeating the call is safe.
//
// When ctx ends, the rows of the call that were not sent are removed. The end of ctx does not stop a transaction.
type Journal struct {
	archive *Archive
	opts    JournalOptions
	log     *slog.Logger
	stamps  *stamps

	mu       sync.Mutex
	waiting  loop.Batcher[*noted]
	running  bool // calls are accepted
	stopping bool
	cancel   context.CancelFunc
	done     chan struct{} // nil before Start
	wake     loop.Signal   // set by new notes and by Stop

	written, batches, refused atomic.Int64
}

// JournalStats are a journal's counts since its start, and the number of rows that wait now.
type JournalStats struct {
	Waiting int   // rows in memory that SQL does not have yet
	Written int64 // rows and changes of rows that were committed
	Batches int64 // transactions that were committed
	Refused int64 // rows that SQL refused for their data
}

// NewJournal makes the journal of an archive that was made with Options.Journal. The journal does nothing before
// Start.
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

// Submit writes the rows of submits that Redis will be asked for next, and their Idempotency-Keys. If a key stands
// for another job, the row is not written and the answer names that job. A row that names a batch makes its job a
// member of it; if the batch does not take the member, the row is not written and the answer says why.
func (j *Journal) Submit(ctx context.Context, rows []job.JournalRow) ([]job.KeyHolder, error) {
	notes := make([]*noted, len(rows))
	for i := range rows {
		l := rows[i] // a copy: the caller may change its own
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

// Submitted stores that Redis accepted submits. Of each row it reads the id, the arrival, the due time and the
// incarnation. It returns at once; SQL gets the rows a moment later, if SQL serves.
func (j *Journal) Submitted(rows []job.JournalRow) { j.stamps.add(rows) }

// TakeBack removes the rows of submits that Redis refused, their keys, and their places in their batches. Of each
// row it reads the id, the key and the batch. The answer says for each row whether this call removed it: false if
// the row no longer belongs to the submit, or does not exist.
func (j *Journal) TakeBack(ctx context.Context, rows []job.JournalRow) ([]bool, error) {
	notes := make([]*noted, len(rows))
	for i := range rows {
		notes[i] = &noted{
			kind: backNote,
			row: &job.JournalRow{Job: job.Job{ID: rows[i].ID, Options: job.Options{Batch: rows[i].Batch}},
				Idempotency: rows[i].Idempotency},
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

// Holder returns the job that an Idempotency-Key stands for. It changes nothing.
func (j *Journal) Holder(ctx context.Context, key job.Idempotency) (job.KeyHolder, error) {
	return j.archive.Holder(ctx, key)
}

// Claimed stores that workers hold jobs: attempt, retries, times and worker. A lease whose attempt is not above
// the row's changes nothing.
func (j *Journal) Claimed(ctx context.Context, leases []job.Lease) error {
	notes := make([]*noted, len(leases))
	for i := range leases {
		run := j.opts.Incarnation(leases[i].ID.Partition())
		l := job.JournalRow{Job: leases[i].Job, Incarnation: run}
		if !leases[i].Own {
			l.Token, l.LeaseFor = leases[i].Token, leases[i].For
		}
		notes[i] = &noted{kind: claimNote, row: &l}
	}
	return j.put(ctx, "journal claims", notes)
}

// Waits stores that attempts ended and that their jobs wait again. It changes a row only if that attempt is the
// running one.
func (j *Journal) Waits(ctx context.Context, waits []job.Waits) error {
	notes := make([]*noted, len(waits))
	for i := range waits {
		w := waits[i]
		notes[i] = &noted{kind: waitsNote, waits: &w}
	}
	return j.put(ctx, "journal waits", notes)
}

// Down says whether the database was unable to serve at the last transaction or probe. While it is, the journal
// probes it by itself.
func (j *Journal) Down() bool { return j.archive.db.Down() }

// Stats reads the counts.
func (j *Journal) Stats() JournalStats {
	j.mu.Lock()
	waiting := j.waiting.Len()
	j.mu.Unlock()
	return JournalStats{Waiting: waiting, Written: j.written.Load(), Batches: j.batches.Load(), Refused: j.refused.Load()}
}

// put hands notes to the loop and waits until all of them are settled.
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

// Start begins to write, until Stop. The end of ctx does not stop it.
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

// Stop refuses new calls, writes what waits, and returns. When ctx ends first, Stop gives up the rest and their
// callers get an error.
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
