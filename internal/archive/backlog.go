package archive

import (
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// entry is one outcome that waits to be written to SQL.
type entry struct {
	job.Outcome
	bytes int
	since time.Time
	of    *recording // nil for an offered outcome: no caller waits for it
}

// recording is one call of Record. The writer's lock guards it.
type recording struct {
	left int // entries not yet settled
	err  error
	done chan struct{}
}

// settle counts one entry as finished, or ends the whole recording with an error.
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

// overhead is roughly the size of an outcome in memory without its texts.
const overhead = 512

func newEntry(o job.Outcome, r *recording, now time.Time) *entry {
	if o.Status != job.Failed && o.Status != job.NeedDiscard {
		o.Payload = nil // only a dead letter stores the payload
	}
	e := &entry{Outcome: o, since: now, of: r, bytes: overhead + len(o.Payload) + len(o.Result) + len(o.LastError)}
	for i := range o.Attempts {
		e.bytes += overhead/4 + len(o.Attempts[i].Error)
	}
	return e
}

// maxBatchBytes keeps a transaction below MariaDB's default max_allowed_packet of 16 MiB.
const maxBatchBytes = 4 << 20

// offerAge is how long an offered outcome may wait while SQL is behind: half of the time after which the outbox
// delivers it again. An outcome that waits longer would be written twice, and an overloaded SQL would do half its
// work for nothing.
const offerAge = 5 * time.Second

// backlog holds the outcomes that wait for the writer's transactions.
type backlog struct{ loop.Batcher[*entry] }

func newBacklog() backlog {
	size := func(e *entry) int { return e.bytes }
	return backlog{loop.Batcher[*entry]{MaxEntries: maxBatch, MaxBytes: maxBatchBytes, Size: size}}
}

// take removes the next batch: different keys, at most maxBatch outcomes, about maxBatchBytes. The second outcome
// of a key in the batch stays for the next batch, which finds the first one in SQL. While more than one batch
// waits, take also drops offered outcomes older than offerAge; left is their number.
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

// dropRecorded removes every entry that a Record waits for and ends those calls with err. Their callers try again.
func (b *backlog) dropRecorded(err error) {
	b.drop(func(r *recording) bool { return r != nil }, err)
}

// drop removes the entries of the recordings that meant selects, and ends those recordings with err.
func (b *backlog) drop(meant func(*recording) bool, err error) {
	b.Remove(func(e *entry) bool {
		if !meant(e.of) {
			return false
		}
		e.of.settle(err)
		return true
	})
}
