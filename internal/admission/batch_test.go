package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ofTier returns a batch of n submissions of one tier.
func ofTier(tier job.Tier, n int) []job.Submission {
	return slices.Repeat([]job.Submission{{Tier: tier, Type: "SIMULATION", MaxRetries: -1}}, n)
}

// slow answers each call after a (virtual) millisecond.
func slow(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
	pass(time.Millisecond)
	return all(job.OK, batch), nil
}

func TestBatch_SharesCallsAndKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: slow}
		a, _ := begin(t, q, 1)
		var ids []job.ID
		for _, r := range a.SubmitBatch(t.Context(), ofTier(job.Paid, 1000)) {
			if r.Err != nil || r.Replayed {
				t.Fatalf("%+v", r)
			}
			ids = append(ids, r.ID)
		}
		var sent []job.ID
		for _, call := range q.sent() {
			for _, s := range call {
				sent = append(sent, s.ID)
				if s.MaxRetries != 5 {
					t.Fatalf("sent %+v", s)
				}
			}
		}
		if !slices.Equal(sent, ids) || !slices.IsSorted(ids) || len(q.sent()) != 10 {
			t.Errorf("%d jobs in %d calls, in order: %v", len(sent), len(q.sent()), slices.Equal(sent, ids))
		}
		if n := a.room.taken.Load(); n != 0 {
			t.Errorf("%d still counted", n)
		}
	})
}

func TestBatch_EachEntryIsAnsweredByItself(t *testing.T) {
	const first = job.ID("0197b1d2-0000-7000-8000-000000000100")
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: func(_ context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			replies := all(job.OK, batch)
			for i, s := range batch {
				switch {
				case s.Tier == job.Public:
					replies[i].Word = job.Full
				case strings.HasPrefix(s.Idempotency.Key, "aaaa"):
					replies[i] = job.SubmitReply{Word: job.Replay, First: first}
				case s.Idempotency.Key != "":
					replies[i].Word = job.Mismatch
				}
			}
			return replies, nil
		}}
		a, _ := begin(t, q, 3)
		batch := []job.Submission{
			{Tier: job.Paid}, {Tier: job.Public}, {Tier: "GOLD"}, {Tier: job.Unpaid, Idempotency: job.Idempotency{Key: "aaaa"}},
			{Tier: job.Unpaid, Idempotency: job.Idempotency{Key: "bbbb"}}, {Tier: job.Unpaid},
		}
		got := a.SubmitBatch(t.Context(), batch)
		for i, want := range []error{nil, job.ErrQueueFull, job.ErrUnknownTier, nil, job.ErrMismatch, nil} {
			if !errors.Is(got[i].Err, want) || (want == nil) != (got[i].ID != "") || got[i].Replayed != (i == 3) {
				t.Errorf("entry %d: %+v, want %v", i, got[i], want)
			}
		}
		var refusal *Refusal
		if got[3].ID != first || !errors.As(got[1].Err, &refusal) || refusal.RetryAfter != blindRefusal {
			t.Errorf("%+v, %+v", got[3], got[1])
		}
		if n := a.room.taken.Load(); n != 0 {
			t.Errorf("%d still counted", n)
		}
		if got := a.SubmitBatch(t.Context(), nil); len(got) != 0 {
			t.Errorf("an empty batch: %v", got)
		}
	})
}

func TestBatch_RefusedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, gate := begin(t, q, 1)
		gone, leave := context.WithCancel(t.Context())
		leave()
		for name, c := range map[string]struct {
			ctx    context.Context
			before func()
			want   error
		}{
			"its client is gone": {gone, func() {}, context.Canceled},
			"the gate is closed": {t.Context(), func() { gate.SetOutbox(1<<40, 0) }, job.ErrUnhealthy},
		} {
			c.before()
			for i, r := range a.SubmitBatch(c.ctx, ofTier(job.Paid, 3)) {
				if !errors.Is(r.Err, c.want) || r.ID != "" {
					t.Errorf("%s: entry %d: %+v", name, i, r)
				}
			}
		}
		if n := len(q.sent()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// With a frozen Redis all entries of a batch are answered within 2 s, and only one call's worth, with ids, is in
// doubt.
func TestBatch_AFrozenRedisHangsNobody(t *testing.T) {
	t.Attr("proves", "F13")
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: frozen}
		a, _ := begin(t, q, 1)
		begun, doubt := time.Now(), 0
		for i, r := range a.SubmitBatch(t.Context(), ofTier(job.Unpaid, 1000)) {
			switch {
			case errors.Is(r.Err, job.ErrFateUnknown):
				if doubt++; r.ID != q.sent()[0][i].ID {
					t.Errorf("in doubt as %q", r.ID)
				}
			case !errors.Is(r.Err, job.ErrUnhealthy) || r.ID != "":
				t.Fatalf("entry %d: %+v", i, r)
			}
		}
		if took := time.Since(begun); took != patience || doubt != job.MaxBatch {
			t.Errorf("%d in doubt after %s", doubt, took)
		}
		if n := a.room.taken.Load(); n != 0 {
			t.Errorf("%d still counted", n)
		}
	})
}

// The waiting list is bounded. A batch that does not fit enters as places become free, within its patience;
// entries without a place are never sent.
func TestBatch_WaitsForRoom(t *testing.T) {
	t.Attr("proves", "S4-N8")
	for name, c := range map[string]struct {
		free int // free places; a call's worth takes job.MaxBatch
		held int // entries in the list at first
		want error
		took time.Duration
	}{
		"room appears":       {job.MaxBatch + 50, job.MaxBatch, nil, 300 * time.Millisecond},
		"room never appears": {50, 0, job.ErrUnhealthy, patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
					<-hold
					return all(job.OK, batch), nil
				}}
				a, _ := begin(t, q, 1)
				if !a.room.take(maxWaiting - c.free) {
					t.Fatal("no room")
				}
				begun := time.Now()
				answers := make(chan []Result, 2)
				for range 2 {
					go func() { answers <- a.SubmitBatch(t.Context(), ofTier(job.Paid, 400)) }()
				}
				pass(300 * time.Millisecond)
				synctest.Wait()
				if n := a.room.taken.Load(); n != int64(maxWaiting-c.free+c.held) {
					t.Errorf("%d places taken", n)
				}
				close(hold)
				for range 2 {
					for i, r := range <-answers {
						if !errors.Is(r.Err, c.want) || (c.want == nil) != (r.ID != "") {
							t.Fatalf("entry %d: %+v, want %v", i, r, c.want)
						}
					}
				}
				sent := 0
				for _, call := range q.sent() {
					sent += len(call)
				}
				if took := time.Since(begun); took != c.took || c.want == nil && sent != 800 || c.want != nil && sent != 0 {
					t.Errorf("%d sent, answered after %s", sent, took)
				}
				if n := a.room.taken.Load(); n != int64(maxWaiting-c.free) {
					t.Errorf("%d still counted", n)
				}
			})
		})
	}
}

func TestBatch_ItsClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			<-hold
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		ctx, leave := context.WithCancel(t.Context())
		answer := make(chan []Result)
		go func() { answer <- a.SubmitBatch(ctx, ofTier(job.Paid, 250)) }()
		synctest.Wait()
		leave()
		for _, r := range <-answer {
			if !errors.Is(r.Err, context.Canceled) {
				t.Fatalf("%+v", r)
			}
		}
		close(hold)
		synctest.Wait()
		if n := len(q.sent()); n != 1 {
			t.Errorf("%d calls, want no more than the one that was under way", n)
		}
	})
}
