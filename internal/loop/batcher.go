package loop

import (
	"slices"
	"sort"
)

// Batcher holds entries until a call takes them: the next call takes all that wait, up to its bounds, and entries that
// arrive during that call wait for the one after it. The owner of a batcher guards it with a lock. Neither the size nor
// the order of an entry changes while the entry waits.
type Batcher[T any] struct {
	MaxEntries int               // of one call
	MaxBytes   int               // of one call; a larger entry has a call for itself
	Size       func(entry T) int // about how many bytes an entry adds to a call
	Compare    func(x, y T) int  // negative if x goes before y; nil = first come, first served

	waiting []T // in their order
	bytes   int
}

// Add puts each entry behind those that go before it, and behind its equals.
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

// AddFirst puts entries before all others, in a batcher without Compare.
func (b *Batcher[T]) AddFirst(entries ...T) {
	b.waiting = slices.Insert(b.waiting, 0, entries...)
	for _, e := range entries {
		b.bytes += b.Size(e)
	}
}

// Next moves the entries of the next call into batch, whose memory it reuses. It asks skip, if that is not nil, about
// each of them: an entry that skip returns true for leaves the batcher without coming into the batch, and the entry
// behind it gets its place. After an empty batch nothing waits any more.
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

// Remove removes the entries that gone returns true for. It asks about each entry once.
func (b *Batcher[T]) Remove(gone func(entry T) bool) {
	b.waiting = slices.DeleteFunc(b.waiting, func(e T) bool {
		if !gone(e) {
			return false
		}
		b.bytes -= b.Size(e)
		return true
	})
}

// Len is how many entries wait.
func (b *Batcher[T]) Len() int { return len(b.waiting) }

// Bytes is the size of all entries that wait.
func (b *Batcher[T]) Bytes() int { return b.bytes }
