package archive

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestRefusalsBackOff(t *testing.T) {
	var r refusals
	now := time.Unix(1_764_000_000, 0)
	k := key{"a", 1}
	if r.holds(k, now) {
		t.Error("held before it was refused")
	}
	for i, seconds := range []int{10, 20, 40, 80, 160, 300, 300, 300} {
		want := time.Duration(seconds) * time.Second
		if got := r.add(k, now); got != want {
			t.Errorf("refusal %d waits %v, want %v", i+1, got, want)
		}
		if !r.holds(k, now.Add(want-1)) || r.holds(k, now.Add(want)) || r.holds(key{"a", 2}, now) {
			t.Errorf("refusal %d is held wrongly", i+1)
		}
	}
	r.remove(k)
	if r.holds(k, now) || r.add(k, now) != 10*time.Second {
		t.Error("not forgotten")
	}
	for i := range refusalLimit + 5 {
		r.add(key{job.ID(fmt.Sprint(i)), 1}, now.Add(time.Duration(i)))
	}
	if len(r.rows) != refusalLimit || r.holds(key{"0", 1}, now) ||
		!r.holds(key{job.ID(fmt.Sprint(refusalLimit)), 1}, now) {
		t.Errorf("%d rows; the first due should be forgotten", len(r.rows))
	}
}

// all returns the waiting entries, in order.
func all(b *backlog) (entries []*entry) {
	b.Remove(func(e *entry) bool {
		entries = append(entries, e)
		return false
	})
	return entries
}

func TestBacklogTakes(t *testing.T) {
	now := time.Unix(1_764_000_000, 0)
	of := func(id string, generation, size int) *entry {
		return newEntry(job.Outcome{Job: job.Job{ID: job.ID(id), Generation: generation, Status: job.Completed,
			Result: bytes.Repeat([]byte("x"), size)}}, nil, now)
	}
	b := newBacklog()
	take := func() []*entry {
		batch, left := b.take(now)
		if left != 0 {
			t.Errorf("%d left", left)
		}
		return batch
	}
	for i := range maxBatch + 1 {
		b.Add(of(fmt.Sprint(i), 1, 0))
	}
	if n := len(take()); n != maxBatch || b.Len() != 1 {
		t.Errorf("took %d, left %d", n, b.Len())
	}
	b.Add(of("same", 1, 0))
	b.Add(of("same", 1, 0))
	b.Add(of("same", 2, 0))
	if n := len(take()); n != 3 || b.Len() != 1 || all(&b)[0].Generation != 1 {
		t.Errorf("took %d, left %d: one key twice in a batch", n, b.Len())
	}
	take()
	if b.Bytes() != 0 {
		t.Errorf("%d bytes of nothing", b.Bytes())
	}
	b.Add(of("huge", 1, 2*maxBatchBytes))
	b.Add(of("small", 1, 0))
	first := take()
	if len(first) != 1 || first[0].ID != "huge" {
		t.Errorf("took %d", len(first))
	}
	b.AddFirst(first...)
	if again := take(); len(again) != 1 || again[0].ID != "huge" || b.Len() != 1 {
		t.Error("what was put back does not come first")
	}

	r := &recording{left: 2, done: make(chan struct{})}
	for range 2 {
		e := of("recorded", 1, 5)
		e.of = r
		b.Add(e)
	}
	b.dropRecorded(errors.New("down"))
	<-r.done
	if b.Len() != 1 || all(&b)[0].ID != "small" || b.Bytes() != all(&b)[0].bytes || r.err == nil {
		t.Errorf("%d wait, %d bytes, %v", b.Len(), b.Bytes(), r.err)
	}
}

// While SQL is behind, old offers are left to the outbox, but no entry that a Record waits for. A backlog that
// fits one batch is written whatever its age.
func TestBacklogLeavesOldOffers(t *testing.T) {
	now := time.Unix(1_764_000_000, 0)
	b := newBacklog()
	add := func(id string, age time.Duration, of *recording) {
		b.Add(newEntry(job.Outcome{Job: job.Job{ID: job.ID(id), Generation: 1, Status: job.Completed}}, of, now.Add(-age)))
	}
	for i := range maxBatch {
		add(fmt.Sprint("old", i), time.Hour, nil)
	}
	if batch, left := b.take(now); len(batch) != maxBatch || left != 0 {
		t.Errorf("a backlog of one batch: %d taken, %d left", len(batch), left)
	}
	r := &recording{left: 1, done: make(chan struct{})}
	for i := range maxBatch {
		add(fmt.Sprint("old", i), offerAge+1, nil)
	}
	add("waited for", time.Hour, r)
	add("young", offerAge, nil)
	batch, left := b.take(now)
	if len(batch) != 2 || left != maxBatch || batch[0].ID != "waited for" || batch[1].ID != "young" || b.Bytes() != 0 ||
		b.Len() != 0 {
		t.Errorf("%d taken, %d left, %d bytes, %d wait", len(batch), left, b.Bytes(), b.Len())
	}
}

func TestCut(t *testing.T) {
	all := inserts{"exact": {5: ""}}
	if got := []int{all.cut("exact", 5), all.cut("exact", 7), all.cut("other", 5)}; !slices.Equal(got, []int{5, 4, 4}) {
		t.Errorf("of 5, 7 and 5 rows the first statement takes %v", got)
	}
	for n := range 2 * maxBatch {
		left, statements := n, 0
		for ; left > 0; left -= all.cut("other", left) {
			statements++
		}
		if left != 0 || statements > 10 {
			t.Errorf("%d rows: %d statements, %d left", n, statements, left)
		}
	}
}
