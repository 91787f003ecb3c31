package sim

import (
	"context"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// poolBugs break the pool's side of the protocol. Each wraps the queue of a pool.
var poolBugs = []struct {
	name    string
	between func(Leases) Leases
}{
	{"a claim asked again gets a new number", func(q Leases) Leases { return &renumbers{Leases: q} }},
	{"an ending sent again is not carried out",
		func(q Leases) Leases { return &assumes{Leases: q, sent: map[job.LeaseRef]bool{}} }},
	{"a heartbeat that failed is the last of a lease",
		func(q Leases) Leases { return &skips{Leases: q, off: map[job.LeaseRef]bool{}} }},
}

func TestPoolMutations(t *testing.T) {
	t.Parallel()
	for _, b := range poolBugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			hunt(t, 0, Options{Between: b.between})
		})
	}
}

// renumbers repeats a claim under a new number, so that it does not ask for the lost answer.
type renumbers struct {
	Leases
	last, more int64
}

func (b *renumbers) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	if r.Number == b.last {
		b.more++
	}
	b.last = r.Number
	r.Number += b.more
	return b.Leases.Claim(ctx, partition, r)
}

// assumes takes a report for delivered whose answer did not come.
type assumes struct {
	Leases
	mu   sync.Mutex
	sent map[job.LeaseRef]bool
}

func (b *assumes) Complete(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply, error) {
	return assume(b, batch, func(c *job.Completion) job.LeaseRef { return c.LeaseRef },
		func() ([]job.EndReply, error) { return b.Leases.Complete(ctx, partition, batch) })
}

func (b *assumes) Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error) {
	return assume(b, batch, func(f *job.Failure) job.LeaseRef { return f.LeaseRef },
		func() ([]job.EndReply, error) { return b.Leases.Fail(ctx, partition, batch) })
}

func (b *assumes) Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error) {
	return assume(
		b,
		batch,
		func(g *job.Release) job.LeaseRef { return g.LeaseRef },
		func() ([]job.EndReply, error) { return b.Leases.Release(ctx, partition, batch) },
	)
}

func assume[T any](b *assumes, batch []T, ref func(*T) job.LeaseRef,
	call func() ([]job.EndReply, error)) ([]job.EndReply, error) {
	b.mu.Lock()
	known := b.sent[ref(&batch[0])]
	for i := range batch {
		b.sent[ref(&batch[i])] = true
	}
	b.mu.Unlock()
	if !known {
		return call()
	}
	replies := make([]job.EndReply, len(batch))
	for i := range replies {
		replies[i].Word = job.OK
	}
	return replies, nil
}

// skips drops the first lease of a heartbeat that failed.
type skips struct {
	Leases
	mu  sync.Mutex
	off map[job.LeaseRef]bool
}

func (b *skips) Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error) {
	b.mu.Lock()
	var rest []job.Beat
	for _, beat := range batch {
		if !b.off[beat.LeaseRef] {
			rest = append(rest, beat)
		}
	}
	b.mu.Unlock()
	words := make([]job.Word, len(batch))
	for i := range words {
		words[i] = job.OK
	}
	if len(rest) == 0 {
		return words, nil
	}
	said, err := b.Leases.Heartbeat(ctx, partition, rest)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.off[rest[0].LeaseRef] = true
		return nil, err
	}
	for i, n := 0, 0; i < len(batch); i++ {
		if !b.off[batch[i].LeaseRef] {
			words[i] = said[n]
			n++
		}
	}
	return words, nil
}

// journalBugs break the accept journal's rules, one at a time.
var journalBugs = []struct {
	name string
	bug  JournalBugs
}{
	{"the giver owes nothing", JournalBugs{OwesNothing: true}},
	{"a row is taken back that is not the submit's any more", JournalBugs{TakesAnyRow: true}},
	{"a row is taken back without its key", JournalBugs{KeepsKeys: true}},
	{"a repeat is answered at once", JournalBugs{RepliesAtOnce: true}},
	{"the row is written after the script", JournalBugs{RowLast: true}},
	{"refused although the row stays", JournalBugs{RefusesAlways: true}},
	{"an outcome leaves the row", JournalBugs{KeepsRows: true}},
	{"a found row stays its submit's", JournalBugs{FoundIsNotOwed: true}},
	{"nothing is given to the next Redis", JournalBugs{GivesNothing: true}},
	{"no row knows of a kill", JournalBugs{KillsNothing: true}},
	{"a replaced payload is not in the row", JournalBugs{KeepsPayloads: true}},
}

func TestJournalMutations(t *testing.T) {
	t.Parallel()
	for _, b := range journalBugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			hunt(t, late[b.name], Options{Journal: b.bug})
		})
	}
}
