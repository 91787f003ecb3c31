package archive

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// entry is one outcome that waits for SQL.
type entry struct {
	job.Outcome
	bytes int
	since time.Time
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

func newEntry(o job.Outcome, r *recording, now time.Time) *entry {
	if o.Status != job.Failed && o.Status != job.NeedDiscard {
		o.Payload = nil // only a dead letter keeps it
	}
	e := &entry{Outcome: o, since: now, of: r, bytes: overhead + len(o.Payload) + len(o.Result) + len(o.LastError)}
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

// first puts entries before all others.
func (b *backlog) first(entries []*entry) {
	for _, e := range entries {
		b.bytes += e.bytes
	}
	b.waiting = slices.Concat(entries, b.waiting)
}

// maxBatchBytes keeps a transaction below MariaDB's default max_allowed_packet of 16 MiB.
const maxBatchBytes = 4 << 20

// offerAge is how long an offered outcome may wait while SQL is behind: half of the time after which the outbox hands it out to whoever
// asks. What waits longer would be written twice, and SQL, which is what is short then, would do half its work for nothing.
const offerAge = 5 * time.Second

// take removes the next batch: different keys, at most maxBatch, about maxBatchBytes. A second ending of a job that is in the
// batch already waits for the next one, where it meets the first in SQL. While more than a batch waits, offers older than offerAge are
// dropped on the way; left is how many.
func (b *backlog) take(now time.Time) (batch []*entry, left int) {
	behind := len(b.waiting) > maxBatch
	batch = make([]*entry, 0, min(len(b.waiting), maxBatch))
	seen := make(map[key]bool, cap(batch))
	var passed []*entry
	bytes, i := 0, 0
	for ; i < len(b.waiting) && len(batch) < maxBatch; i++ {
		e := b.waiting[i]
		if behind && e.of == nil && now.Sub(e.since) > offerAge {
			b.waiting[i] = nil
			b.bytes -= e.bytes
			left++
			continue
		}
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
	return batch, left
}

// dropRecorded removes every entry that a Record waits for and ends those calls with err: their callers come again.
func (b *backlog) dropRecorded(err error) {
	b.drop(func(r *recording) bool { return r != nil }, err)
}

// drop removes what waits for the recordings that are meant, and ends those with err.
func (b *backlog) drop(meant func(*recording) bool, err error) {
	b.waiting = slices.DeleteFunc(b.waiting, func(e *entry) bool {
		if !meant(e.of) {
			return false
		}
		b.bytes -= e.bytes
		e.of.settle(err)
		return true
	})
}
