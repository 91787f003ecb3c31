package loop

import (
	"slices"
	"sort"
)

// Batcher holds entries until a call takes them: the next call takes all waiting entries, up to its limits, and
// entries that arrive during that call wait for the one after it. The owner of a batcher guards it with a lock.
// Neither the size nor the order of an entry may change while the entry waits.
type Batcher[T any] struct {
	MaxEntries int               // the limit of one call
	MaxBytes   int               // the limit of one call; a larger entry gets a call of its own
	Size       func(entry T) int // roughly how many bytes an entry adds to a call
	Compare    func(x, y T) int  // negative if x goes before y; nil = in the order of Add

	waiting []T // in the order of their calls
	bytes   int
}

// Add adds entries, each behind the entries that go before it and behind its equals.
func (b *Batcher[T]) Add(entries ...T) {
	for _, e := range entries {
		at := len(b.waiting)
		if b.Compare != nil {
			at = sort.Search(at, func(i int) bool { return b.Compare(e, b.waiting[i]) < 0 })
		}
		b.waiting = slices.Insert(b.waiting, at, e)
		b.bytes += b.Size(e)
	}
}

// AddFirst adds entries before all others. The batcher must have no Compare.
func (b *Batcher[T]) AddFirst(entries ...T) {
	b.waiting = slices.Insert(b.waiting, 0, entries...)
	for _, e := range entries {
		b.bytes += b.Size(e)
	}
}

// Next moves the entries of the next call into batch, whose memory it reuses. If skip is not nil, Next calls it
// for each of these entries: an entry for which skip returns true leaves the batcher without entering the batch,
// and the next entry takes its place. An empty batch means that no entry is left.
func (b *Batcher[T]) Next(batch []T, skip func(entry T) bool) []T {
	batch = slices.Grow(batch[:0], min(b.MaxEntries, len(b.waiting)))
	removed, bytes := 0, 0
	for _, e := range b.waiting {
		size := b.Size(e)
		if len(batch) == b.MaxEntries || len(batch) > 0 && bytes+size > b.MaxBytes {
			break
		}
		removed++
		b.bytes -= size
		if skip == nil || !skip(e) {
			batch = append(batch, e)
			bytes += size
		}
	}
	b.waiting = slices.Delete(b.waiting, 0, removed)
	return batch
}

// Remove removes the entries for which gone returns true. It calls gone once per entry.
func (b *Batcher[T]) Remove(gone func(entry T) bool) {
	b.waiting = slices.DeleteFunc(b.waiting, func(e T) bool {
		if !gone(e) {
			return false
		}
		b.bytes -= b.Size(e)
		return true
	})
}

// Len returns how many entries wait.
func (b *Batcher[T]) Len() int { return len(b.waiting) }

// Bytes returns the size of all waiting entries.
func (b *Batcher[T]) Bytes() int { return b.bytes }
