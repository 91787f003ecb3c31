package archive

import (
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// entry is one outcome that waits for SQL.
type entry struct {
	job.Outcome
	bytes int
	of    *recording // nil: offered, nobody waits
}

// recording is one call of Record. The writer's lock guards it.
type recording struct {
	left int // entries not yet settled
	err  error
	done chan struct{}
}

// settle counts one entry as dealt with, or ends the whole recording with an error.
func (r *recording) settle(err error) {
	if r == nil || r.left == 0 {
		return
	}
	r.left--
	if err != nil {
		r.err, r.left = err, 0
	}
	if r.left == 0 {
		close(r.done)
	}
}

// overhead is about what an outcome weighs beside its texts.
const overhead = 512

func newEntry(o job.Outcome, r *recording) *entry {
	if o.Status != job.Failed && o.Status != job.NeedDiscard {
		o.Payload = nil // only a dead letter keeps it
	}
	e := &entry{Outcome: o, of: r, bytes: overhead + len(o.Payload) + len(o.Result) + len(o.LastError)}
	for i := range o.Attempts {
		e.bytes += overhead/4 + len(o.Attempts[i].Error)
	}
	return e
}

// backlog is what waits, first come first. It is not safe for concurrent use.
type backlog struct {
	waiting []*entry
	bytes   int
}

func (b *backlog) add(e *entry) {
	b.waiting = append(b.waiting, e)
	b.bytes += e.bytes
}

// putBack puts entries before all others.
func (b *backlog) putBack(entries []*entry) {
	for _, e := range entries {
		b.bytes += e.bytes
	}
	b.waiting = slices.Concat(entries, b.waiting)
}

// maxBatchBytes keeps a transaction below MariaDB's default max_allowed_packet of 16 MiB.
const maxBatchBytes = 4 << 20

// take removes the next batch: different keys, at most maxBatch, about maxBatchBytes. A second ending of a job that is in the
// batch already waits for the next one, where it meets the first in SQL.
func (b *backlog) take() []*entry {
	batch := make([]*entry, 0, min(len(b.waiting), maxBatch))
	seen := make(map[key]bool, cap(batch))
	var passed []*entry
	bytes, i := 0, 0
	for ; i < len(b.waiting) && len(batch) < maxBatch; i++ {
		e := b.waiting[i]
		if len(batch) > 0 && bytes+e.bytes > maxBatchBytes {
			break
		}
		b.waiting[i] = nil
		if k := keyOf(&e.Outcome); seen[k] {
			passed = append(passed, e)
			continue
		} else {
			seen[k] = true
		}
		batch = append(batch, e)
		bytes += e.bytes
	}
	b.bytes -= bytes
	b.waiting = b.waiting[i:]
	if len(passed) > 0 {
		b.waiting = slices.Concat(passed, b.waiting)
	}
	return batch
}

// dropRecorded removes every entry that a Record waits for and ends those calls with err: their callers come again.
func (b *backlog) dropRecorded(err error) {
	b.waiting = slices.DeleteFunc(b.waiting, func(e *entry) bool {
		if e.of == nil {
			return false
		}
		b.bytes -= e.bytes
		e.of.settle(err)
		return true
	})
}
