package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Result is the result of one submission of a batch. Err is nil or one of Submit's errors; Accepted is set where
// Submit returns it.
type Result struct {
	job.Accepted
	Err error
}

// errImpatient ends the context of a batch whose patience is over.
var errImpatient = errors.New("the patience of a batch is over")

// SubmitBatch accepts or refuses each submission by itself, as Submit does, and answers all of them within 2 s, in the
// order of the input. It checks the gate once. The entries share script calls: job.MaxBatch of them at a time go to one
// partition, in their order; entries with an Idempotency-Key or a unique key go to the key's partition. An entry that
// gets no place in the waiting list within the batch's patience is refused and never sent.
func (a *Admission) SubmitBatch(ctx context.Context, batch []job.Submission) []Result {
	return a.submit(ctx, batch, a.room.wait)
}

// flight is one call's submissions while they are being decided.
type flight struct {
	a       *Admission
	batch   []job.Submission
	results []Result
	entries []*entry // the last entry of each submission; nil = refused before it had one
	again   []int    // the submissions to try again
	rows    bool     // some submissions have a row in the journal
}

// submit sends submissions to Redis, round after round: a submission that one partition did not take moves to
// another, and a submission whose key is undecided is tried again. places takes places in the waiting list.
func (a *Admission) submit(
	ctx context.Context, batch []job.Submission, places func(ctx context.Context, n int) bool,
) []Result {
	f := &flight{a: a, batch: batch, results: make([]Result, len(batch)), entries: make([]*entry, len(batch))}
	if err := a.open(ctx); err != nil {
		for i := range f.results {
			f.results[i].Err = err
		}
		return f.results
	}
	atOnce := job.MaxBatch
	if f.rows = f.journals(); f.rows {
		atOnce = rowsAtOnce
		ctx = context.WithoutCancel(ctx) // a written row must be decided, even if the client left
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errImpatient)
	defer cancel()
	for i := range batch {
		f.again = append(f.again, i)
	}
	for round := 0; len(f.again) > 0; round++ {
		if round > 0 && !f.pause(ctx) {
			break
		}
		f.round(ctx, atOnce, places)
	}
	return f.results
}

// pause waits before a round if a submission must be tried again. Submissions that only move need no pause. It
// returns false when the patience is over.
func (f *flight) pause(ctx context.Context) bool {
	if !slices.ContainsFunc(f.again, func(i int) bool { return f.entries[i].answered }) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// round sends the submissions in f.again, waits for the answers, and leaves in f.again those to try once more.
func (f *flight) round(ctx context.Context, atOnce int, places func(ctx context.Context, n int) bool) {
	now := f.again
	f.again = nil
	who := newCaller(1) // 1 for this function itself, until all entries are on their way
	var sent []int
	for len(now) > 0 {
		n := min(len(now), atOnce)
		if !places(ctx, n) {
			for _, i := range now {
				f.results[i] = f.unsent(i, whyLeft(ctx, refuse(job.ErrUnhealthy, 0)))
			}
			break
		}
		sent = append(sent, f.send(ctx, now[:n], who)...)
		now = now[n:]
	}
	who.answered()
	select {
	case <-who.done:
	case <-ctx.Done():
		for _, i := range sent {
			f.entries[i].home.leave(f.entries[i], whyLeft(ctx, nil))
		}
	}
	f.collect(sent)
}

// unsent returns the result of a submission that is not sent any more: the answer of an earlier partition, if
// there is one, or err.
func (f *flight) unsent(i int, err error) Result {
	if e := f.entries[i]; e != nil && e.err != nil {
		err = e.err
	}
	return f.a.told(&f.batch[i], job.Accepted{}, err)
}

// collect reads the answers of entries. Entries that may move are tried again; the others get their result.
func (f *flight) collect(sent []int) {
	if f.rows {
		var accepted, refused []int
		for _, i := range sent {
			switch e := f.entries[i]; {
			case !f.a.journals(&e.submission):
			case e.err == nil && e.first == "":
				accepted = append(accepted, i)
			case !errors.Is(e.err, job.ErrFateUnknown):
				refused = append(refused, i)
			}
		}
		f.submitted(accepted)
		f.takeBack(f.replaced(refused))
	}
	for _, i := range sent {
		if e := f.entries[i]; e.moves {
			f.again = append(f.again, i)
		}
		f.results[i] = f.a.result(f.entries[i])
	}
}

// whyLeft returns the error of ctx, or the argument patience if the patience ran out.
func whyLeft(ctx context.Context, patience error) error {
	if errors.Is(context.Cause(ctx), errImpatient) {
		return patience
	}
	return ctx.Err()
}

// send puts submissions, whose places are taken, into the lists of their committers. It returns the submissions
// that are in a list now.
func (f *flight) send(ctx context.Context, now []int, who *caller) (sent []int) {
	for len(now) > 0 {
		n := min(len(now), job.MaxBatch)
		sent = append(sent, f.address(now[:n], who)...)
		now = now[n:]
	}
	if f.rows {
		sent = f.journaled(ctx, sent)
	}
	who.left.Add(int64(len(sent)))
	for rest := sent; len(rest) > 0; {
		home, n := f.entries[rest[0]].home, 0
		var group []*entry
		for n < len(rest) && f.entries[rest[n]].home == home {
			group = append(group, f.entries[rest[n]])
			n++
		}
		home.add(group...)
		rest = rest[n:]
	}
	return sent
}

// address makes the entries of one call's worth of submissions. Those without a key go to one partition, to share
// calls. The returned order is by partition, and within a partition that of the input.
func (f *flight) address(now []int, who *caller) (addressed []int) {
	var chosen *committer
	for _, i := range now {
		s, before := &f.batch[i], f.entries[i]
		if before != nil && !before.moves {
			before = nil
		}
		plan, ok := f.a.plans.Plan(s.Tier)
		c, err := chosen, job.ErrUnknownTier
		if ok {
			if err = nil; c == nil || before != nil || s.Home() != "" {
				c, err = f.a.place(s, before)
			}
			var e *entry
			if err == nil {
				if e, err = f.a.entry(s, plan, c, before, who); err == nil {
					f.entries[i] = e
				}
			}
		}
		if err != nil {
			f.results[i] = f.a.told(s, job.Accepted{}, err)
			f.a.room.give()
			continue
		}
		if before == nil && s.Home() == "" {
			chosen = c
		}
		addressed = append(addressed, i)
	}
	slices.SortStableFunc(addressed, func(x, y int) int {
		return f.entries[x].home.partition - f.entries[y].home.partition
	})
	return addressed
}
