package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// overQuota answers as the script does if the owner ann has reached the quota and the others have not.
func overQuota(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
	replies := all(job.OK, batch)
	for i, s := range batch {
		replies[i].ArrivedAt = clock
		if s.Owner == "ann" {
			replies[i] = job.SubmitReply{Word: job.Quota}
		}
	}
	return replies, nil
}

// A quota refuses each of its owner's entries by itself and at once, and no row of them stays in the journal. For
// a moment the owner's next submits are refused without a call.
func TestQuota_RefusesEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, j := &fakeQueue{answer: overQuota}, &fakeJournal{}
		a := journaled(t, q, j, 1)
		a.drain = drain{rate: func() float64 { return 2 }, load: func(job.Tier) (int64, int64) { return 5, 10 }}
		began := time.Now()
		batch := []job.Submission{
			{Tier: job.Paid, Owner: "bob", Quota: 5}, {Tier: job.Paid, Owner: "ann", Quota: 5}, {Tier: job.Public},
			{Tier: job.Public, Owner: "ann", Quota: 5, Idempotency: job.Idempotency{Key: "k", Body: "b"}},
		}
		for i, r := range a.SubmitBatch(t.Context(), batch) {
			if refused := batch[i].Owner == "ann"; errors.Is(r.Err, job.ErrQuota) != refused || (r.Err == nil) == refused ||
				(r.ID == "") != refused {
				t.Errorf("entry %d: %+v", i, r)
			}
		}
		_, err := a.Submit(t.Context(), batch[1])
		var refusal *Refusal
		if !errors.As(err, &refusal) || !errors.Is(err, job.ErrQuota) || refusal.RetryIn() != 3*time.Second {
			t.Errorf("%v, retry in %v: six jobs end in 3 s", err, refusal.RetryIn())
		}
		if time.Since(began) > 0 || len(q.sent()) != 1 {
			t.Errorf("%d calls, %s: it was sent again", len(q.sent()), time.Since(began))
		}
		for _, r := range j.rows {
			if r.Owner == "ann" {
				t.Errorf("the journal has %+v", r)
			}
		}
		if len(j.rows) != 2 || len(j.back) != 2 || a.room.taken.Load() != 0 {
			t.Errorf("%d rows, %d taken back, %d still counted", len(j.rows), len(j.back), a.room.taken.Load())
		}
	})
}

// A flood of submits over one key's quota, half of them aborted by the client, is no outage: the gate stays open,
// and other submits are accepted.
func TestQuota_AFloodLeavesTheGateOpen(t *testing.T) {
	t.Attr("proves", "A29 A30")
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: func(ctx context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			pass(5 * time.Millisecond)
			return overQuota(ctx, call, batch)
		}}
		a, gate := begin(t, q, 1)
		var wg sync.WaitGroup
		for i := range 2000 {
			wg.Go(func() {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				want := job.ErrQuota
				if i%2 == 0 {
					want = context.Canceled
					time.AfterFunc(time.Millisecond, leave)
				}
				if _, err := a.Submit(ctx, job.Submission{Tier: job.Public, Owner: "ann", Quota: 5}); !errors.Is(err, want) {
					t.Errorf("submit %d: %v, want %v", i, err, want)
				}
			})
		}
		pass(2 * time.Millisecond)
		if r := submit(t.Context(), a, job.Paid); r.err != nil || r.took > 20*time.Millisecond {
			t.Errorf("a PAID submit in the flood: %v after %s", r.err, r.took)
		}
		wg.Wait()
		if s := gate.State(); !s.Open || s.Failures != 0 {
			t.Errorf("the gate counted the flood: %+v", s)
		}
		if n := a.room.taken.Load(); n != 0 {
			t.Errorf("%d still counted", n)
		}
	})
}
