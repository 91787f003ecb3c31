package loop

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// batcherOf makes a batcher of words; the size of a word is its length.
func batcherOf(waiting ...string) *Batcher[string] {
	b := &Batcher[string]{MaxEntries: 3, MaxBytes: 10, Size: func(s string) int { return len(s) }}
	b.Add(waiting...)
	return b
}

// rest checks which entries wait, and that the batcher's counts agree with them.
func rest(t *testing.T, b *Batcher[string], want ...string) {
	t.Helper()
	var seen []string
	b.Remove(func(s string) bool {
		seen = append(seen, s)
		return false
	})
	if bytes := len(strings.Join(want, "")); !slices.Equal(seen, want) || b.Len() != len(want) || b.Bytes() != bytes {
		t.Errorf("%q wait, %d entries, %d bytes; want %q, %d bytes", seen, b.Len(), b.Bytes(), want, bytes)
	}
}

// A call takes the entries that wait, up to both bounds, and leaves the others in their order for the next call.
func TestBatcher_Next(t *testing.T) {
	for _, c := range []struct {
		name                string
		waiting, want, left []string
	}{
		{"nothing", nil, nil, nil},
		{"all", []string{"a", "b"}, []string{"a", "b"}, nil},
		{"by number", []string{"a", "b", "c", "d", "e"}, []string{"a", "b", "c"}, []string{"d", "e"}},
		{"by bytes, to the last one", []string{"aaaaa", "bbbbb", "c"}, []string{"aaaaa", "bbbbb"}, []string{"c"}},
		{"none overtakes a large one", []string{"aaaaa", "bbbbbb", "c"}, []string{"aaaaa"}, []string{"bbbbbb", "c"}},
		{"one that is too large goes by itself", []string{"aaaaaaaaaaa", "b"}, []string{"aaaaaaaaaaa"}, []string{"b"}},
		{"and behind others waits for that", []string{"a", "bbbbbbbbbbb"}, []string{"a"}, []string{"bbbbbbbbbbb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := batcherOf(c.waiting...)
			if batch := b.Next(nil, nil); !slices.Equal(batch, c.want) {
				t.Errorf("took %q, want %q", batch, c.want)
			}
			rest(t, b, c.left...)
		})
	}
}

// An entry that is added during a call goes into the next call, which reuses the memory of the batch before.
func TestBatcher_NextReusesMemory(t *testing.T) {
	b := batcherOf("a", "b", "c", "d")
	first := b.Next(nil, nil)
	b.Add("e")
	if !slices.Equal(first, []string{"a", "b", "c"}) {
		t.Errorf("the batch became %q", first)
	}
	second := b.Next(first, nil)
	if !slices.Equal(second, []string{"d", "e"}) || &first[0] != &second[0] {
		t.Errorf("then %q, in the same memory: %t", second, &first[0] == &second[0])
	}
	for _, s := range b.waiting[:cap(b.waiting)] {
		if s != "" {
			t.Errorf("the batcher still holds %q", s)
		}
	}
}

// A skipped entry leaves the batcher and takes no place in the call. Next calls skip for no entry of a later call.
func TestBatcher_NextSkips(t *testing.T) {
	b := batcherOf("-1", "a", "-2", "b", "-3", "c", "-4", "d")
	var asked []string
	skip := func(s string) bool {
		asked = append(asked, s)
		return s[0] == '-'
	}
	if batch := b.Next(nil, skip); !slices.Equal(batch, []string{"a", "b", "c"}) {
		t.Errorf("took %q", batch)
	}
	if want := []string{"-1", "a", "-2", "b", "-3", "c"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
	rest(t, b, "-4", "d")
	for _, waiting := range [][]string{{"-aaaaaaaaaaaa", "b", "ccccc"}, {"b", "-aaaaa", "ccccc"}} {
		if batch := batcherOf(waiting...).Next(nil, skip); !slices.Equal(batch, []string{"b", "ccccc"}) {
			t.Errorf("beside a large entry that was skipped: %q", batch)
		}
	}
	gone := batcherOf("-1", "-2", "-3", "-4")
	if batch := gone.Next(nil, skip); len(batch) != 0 {
		t.Errorf("took %q", batch)
	}
	rest(t, gone)
}

// Entries that are put back go before all others, in their order.
func TestBatcher_AddFirst(t *testing.T) {
	b := batcherOf("a", "b", "c", "d", "e")
	batch := b.Next(nil, nil)
	b.AddFirst(batch...)
	b.AddFirst()
	rest(t, b, "a", "b", "c", "d", "e")
}

// With Compare, entries wait in that order, and equal ones in the order of their arrival.
func TestBatcher_AddInOrder(t *testing.T) {
	b := batcherOf()
	b.Compare = func(x, y string) int { return cmp.Compare(x[0], y[0]) }
	b.Add("c1", "a1", "b1", "a2", "c2")
	if batch := b.Next(nil, nil); !slices.Equal(batch, []string{"a1", "a2", "b1"}) {
		t.Errorf("took %q", batch)
	}
	b.Add("b1", "d1", "a3")
	rest(t, b, "a3", "b1", "c1", "c2", "d1")
}

// A removed entry leaves with its bytes, and the others stay in their order.
func TestBatcher_Remove(t *testing.T) {
	b := batcherOf("a", "bb", "ccc", "bb")
	b.Remove(func(s string) bool { return s == "bb" })
	rest(t, b, "a", "ccc")
	for _, s := range b.waiting[b.Len():cap(b.waiting)] {
		if s != "" {
			t.Errorf("the batcher still holds %q", s)
		}
	}
}

// Entries that come and go allocate nothing: batch and batcher reuse their memory.
func TestBatcher_Allocates(t *testing.T) {
	type entry struct{ size, order int }
	for _, ordered := range []bool{false, true} {
		b := Batcher[*entry]{MaxEntries: 100, MaxBytes: 1 << 20, Size: func(e *entry) int { return e.size }}
		if ordered {
			b.Compare = func(x, y *entry) int { return cmp.Compare(x.order, y.order) }
		}
		entries := make([]entry, 250)
		var batch []*entry
		if n := testing.AllocsPerRun(10, func() {
			for i := range entries {
				entries[i] = entry{size: 100, order: i % 7}
				b.Add(&entries[i])
			}
			for batch = b.Next(batch, nil); len(batch) > 0; batch = b.Next(batch, nil) {
			}
		}); n > 0 {
			t.Errorf("ordered: %t; %.0f allocations for %d entries", ordered, n, len(entries))
		}
	}
}
