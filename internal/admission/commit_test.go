package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// many submits n jobs at once and returns the results.
func many(t *testing.T, a *Admission, n int, tier job.Tier) []result {
	t.Helper()
	results := make([]result, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { results[i] = submit(t.Context(), a, tier) })
	}
	group.Wait()
	return results
}

func TestCommit_ConcurrentSubmitsShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			pass(time.Millisecond) // virtual time: a call is not instant
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		seen := map[job.ID]bool{}
		for _, r := range many(t, a, 100, job.Paid) {
			if r.err != nil || seen[r.id] {
				t.Fatalf("submit: id %s, error %v", r.id, r.err)
			}
			seen[r.id] = true
		}
		if n := len(q.sent()); n > 3 {
			t.Errorf("100 concurrent submits took %d calls", n)
		}
	})
}

func TestCommit_ALonelySubmitWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := begin(t, &fakeQueue{}, 1)
		if r := submit(t.Context(), a, job.Paid); r.err != nil || r.took != 0 {
			t.Errorf("took %s, error %v", r.took, r.err)
		}
	})
}

func TestCommit_CallsStayWithinTheScriptsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			<-hold
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		var group sync.WaitGroup
		for i := range 300 {
			payload := make([]byte, 64<<10)
			if i%2 == 0 {
				payload = nil
			}
			group.Go(func() {
				if _, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid, Payload: payload}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(hold)
		group.Wait()
		total := 0
		for _, call := range q.sent() {
			bytes := 0
			for _, s := range call {
				bytes += len(s.Payload)
			}
			if len(call) > job.MaxBatch || bytes > job.MaxBatchBytes {
				t.Errorf("a call of %d entries, %d bytes", len(call), bytes)
			}
			total += len(call)
		}
		if total != 300 {
			t.Errorf("%d entries sent", total)
		}
	})
}

func TestCommit_TheWaitingListIsServedByTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := &fakeQueue{answer: func(_ context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			if call == 1 {
				<-hold
			}
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		var group sync.WaitGroup
		send := func(tier job.Tier, n int) {
			for range n {
				group.Go(func() { submit(t.Context(), a, tier) })
				synctest.Wait()
			}
		}
		send(job.Public, 1) // in the call that is held
		send(job.Public, 60)
		send(job.Unpaid, 60)
		send(job.Paid, 60)
		close(hold)
		group.Wait()
		var order []job.Tier
		var ids []job.ID
		for _, call := range q.sent()[1:] {
			for _, s := range call {
				order = append(order, s.Tier)
				ids = append(ids, s.ID)
			}
		}
		want := slices.Concat(slices.Repeat([]job.Tier{job.Paid}, 60), slices.Repeat([]job.Tier{job.Unpaid}, 60),
			slices.Repeat([]job.Tier{job.Public}, 60))
		if !slices.Equal(order, want) {
			t.Errorf("served %v", order)
		}
		for i := 0; i < len(ids); i += 60 {
			if !slices.IsSorted(ids[i : i+60]) {
				t.Errorf("not first in, first out, inside %s", order[i])
			}
		}
	})
}

func TestCommit_AFullListRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := begin(t, &fakeQueue{answer: frozen}, 1)
		var group sync.WaitGroup
		for range maxWaiting {
			group.Go(func() { submit(t.Context(), a, job.Public) })
		}
		synctest.Wait()
		r := submit(t.Context(), a, job.Paid)
		if !errors.Is(r.err, job.ErrUnhealthy) || r.took != 0 {
			t.Errorf("took %s: %v", r.took, r.err)
		}
		group.Wait()
		if n := a.room.taken.Load(); n != 0 {
			t.Errorf("%d still counted", n)
		}
	})
}

// With a frozen Redis every submit is answered within 2 s, submits that were not sent are certainly refused, and
// at most one call's worth is in doubt at a time.
func TestCommit_AFrozenRedisHangsNobody(t *testing.T) {
	t.Attr("proves", "F13")
	hang := func(context.Context, int, []job.Submission) ([]job.SubmitReply, error) {
		pass(5 * time.Second) // virtual time: a client library that ignores its context
		return nil, job.ErrAmbiguous
	}
	for name, answer := range map[string]func(context.Context, int, []job.Submission) ([]job.SubmitReply,
		error){"deadline kept": frozen, "deadline ignored": hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &fakeQueue{answer: answer}
				a, _ := begin(t, q, 1)
				sent, doubt := map[job.ID]bool{}, 0
				results := many(t, a, 1000, job.Unpaid)
				for _, call := range q.sent() {
					for _, s := range call {
						sent[s.ID] = true
					}
				}
				for _, r := range results {
					switch {
					case r.took > 2*time.Second:
						t.Fatalf("answered after %s", r.took)
					case errors.Is(r.err, job.ErrFateUnknown):
						doubt++
						if !sent[r.id] {
							t.Errorf("%q is in doubt and was never sent", r.id)
						}
					case !errors.Is(r.err, job.ErrUnhealthy) || r.id != "":
						t.Fatalf("id %q, error %v", r.id, r.err)
					}
				}
				if len(sent) != doubt || doubt > job.MaxBatch || doubt == 0 {
					t.Errorf("%d sent, %d in doubt", len(sent), doubt)
				}
			})
		})
	}
}

// Callers that each send one submit after the other go together: a call costs Redis more than an entry in it.
func TestCommit_CallersThatComeAgainShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			pass(100 * time.Microsecond)
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		const callers, submits = 16, 800
		var group sync.WaitGroup
		var sent atomic.Int64
		for i := range callers {
			group.Go(func() {
				for sent.Add(1) <= submits {
					if r := submit(t.Context(), a, job.Paid); r.err != nil {
						t.Error(r.err)
					}
					pass(time.Duration(i) * time.Microsecond) // no two callers are equally quick
				}
			})
		}
		group.Wait()
		if calls := len(q.sent()); calls > submits/10 {
			t.Errorf("%d submits of %d callers took %d calls", submits, callers, calls)
		}
	})
}

// A submit does not wait long for callers that do not come again.
func TestCommit_WaitsShortlyForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			pass(time.Millisecond)
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		many(t, a, 100, job.Paid)
		r := submit(t.Context(), a, job.Paid)
		if r.err != nil || r.took > time.Millisecond+gatherFor {
			t.Errorf("the first submit after a crowd took %s, error %v", r.took, r.err)
		}
		if r = submit(t.Context(), a, job.Paid); r.err != nil || r.took != time.Millisecond {
			t.Errorf("the second took %s, error %v", r.took, r.err)
		}
	})
}
