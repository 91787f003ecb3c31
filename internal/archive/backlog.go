package archive

import (
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
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

// maxBatchBytes keeps a transaction below MariaDB's default max_allowed_packet of 16 MiB.
const maxBatchBytes = 4 << 20

// offerAge is how long an offered outcome may wait while SQL is behind: half of the time after which the outbox hands
// it out to whoever asks. What waits longer would be written twice, and SQL, which is what is short then, would do half
// its work for nothing.
const offerAge = 5 * time.Second

// backlog is what waits for the writer's transactions.
type backlog struct{ loop.Batcher[*entry] }

func newBacklog() backlog {
	size := func(e *entry) int { return e.bytes }
	return backlog{loop.Batcher[*entry]{MaxEntries: maxBatch, MaxBytes: maxBatchBytes, Size: size}}
}

// take removes the next batch: different keys, at most maxBatch, about maxBatchBytes. A second ending of a job that is
// in the batch already waits for the next batch, where it meets the first in SQL. While more than a batch waits, take
// drops offers older than offerAge on its way; left is how many.
func (b *backlog) take(now time.Time) (batch []*entry, left int) {
	behind := b.Len() > maxBatch
	seen := make(map[key]bool, min(b.Len(), maxBatch))
	var second []*entry
	batch = b.Next(nil, func(e *entry) bool {
		k := keyOf(&e.Outcome)
		switch {
		case behind && e.of == nil && now.Sub(e.since) > offerAge:
			left++
			return true
		case seen[k]:
			second = append(second, e)
			return true
		}
		seen[k] = true
		return false
	})
	b.AddFirst(second...)
	return batch, left
}

// dropRecorded removes every entry that a Record waits for and ends those calls with err: their callers come again.
func (b *backlog) dropRecorded(err error) {
	b.drop(func(r *recording) bool { return r != nil }, err)
}

// drop removes the entries of the recordings that are meant, and ends those recordings with err.
func (b *backlog) drop(meant func(*recording) bool, err error) {
	b.Remove(func(e *entry) bool {
		if !meant(e.of) {
			return false
		}
		e.of.settle(err)
		return true
	})
}
