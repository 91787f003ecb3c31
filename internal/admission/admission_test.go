package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestSubmit_AnswersAnIDAtOnce(t *testing.T) {
	t.Attr("proves", "S2-P1 S3-S1")
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, _ := begin(t, q, 1)
		r := submit(t.Context(), a, job.Unpaid)
		if id, err := job.ParseID(string(r.id)); err != nil || id != r.id || r.id[14] != '7' {
			t.Errorf("id %q: %v", r.id, err)
		}
		if s := q.sent()[0][0]; s.ID != r.id || s.MaxRetries != 2 || s.Tier != job.Unpaid {
			t.Errorf("sent %+v", s)
		}
	})
}

func TestSubmit_MaxRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, _ := begin(t, q, 1)
		for asked, want := range map[int]int{-1: 5, 0: 0, 3: 3, 5: 5, 1e9: 5} {
			if _, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid, MaxRetries: asked}); err != nil {
				t.Fatal(err)
			}
			calls := q.sent()
			if got := calls[len(calls)-1][0].MaxRetries; got != want {
				t.Errorf("maxRetries %d became %d, want %d", asked, got, want)
			}
		}
	})
}

func TestSubmit_RefusesBeforeItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, gate := begin(t, q, 1)
		if r := submit(t.Context(), a, "GOLD"); !errors.Is(r.err, job.ErrUnknownTier) {
			t.Errorf("unknown tier: %v", r.err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if r := submit(gone, a, job.Paid); !errors.Is(r.err, context.Canceled) {
			t.Errorf("a client that is gone: %v", r.err)
		}
		gate.SetOutbox(1<<40, 0)
		r := submit(t.Context(), a, job.Paid)
		var refusal *Refusal
		if !errors.As(r.err, &refusal) || !errors.Is(r.err, job.ErrUnhealthy) || refusal.RetryAfter != dwell {
			t.Errorf("gate closed: %#v", r.err)
		}
		if n := len(q.sent()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// When the gate closes, waiting submits are refused at once; submits that may have been executed are still sent
// again.
func TestSubmit_TheGateClosesOverTheWaitingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := &fakeQueue{answer: func(_ context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			if call == 1 {
				<-hold
				return nil, job.ErrAmbiguous
			}
			return all(job.Duplicate, batch), nil
		}}
		a, gate := begin(t, q, 1)
		doubt, fresh := make(chan result), make(chan result)
		go func() { doubt <- submit(t.Context(), a, job.Public) }()
		synctest.Wait()
		go func() { fresh <- submit(t.Context(), a, job.Paid) }()
		synctest.Wait()
		for range 3 {
			gate.Observe(0, job.ErrAmbiguous)
		}
		close(hold)
		if r := <-fresh; !errors.Is(r.err, job.ErrUnhealthy) || r.took > pause {
			t.Errorf("never sent: took %s: %v", r.took, r.err)
		}
		if r := <-doubt; r.err != nil || r.took != pause {
			t.Errorf("in doubt: took %s: %v", r.took, r.err)
		}
	})
}

func TestSubmit_PartitionsFillEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, _ := begin(t, q, 4)
		count := map[int]int{}
		for range 40 {
			count[submit(t.Context(), a, job.Paid).id.Partition()]++
		}
		for p := range 4 {
			if count[p] != 10 {
				t.Errorf("partition %d got %d of 40", p, count[p])
			}
		}
	})
}

func TestSubmit_AFrozenPartitionIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: func(ctx context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			if batch[0].ID.Partition() == 0 {
				return frozen(ctx, call, batch)
			}
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 2)
		ok := 0
		for range 2 {
			go submit(t.Context(), a, job.Paid)
			synctest.Wait()
		}
		for range 20 {
			if r := submit(t.Context(), a, job.Paid); r.err == nil && r.took == 0 {
				ok++
			}
		}
		if ok != 20 {
			t.Errorf("%d of 20 went around the frozen partition", ok)
		}
	})
}

func TestLifecycle(t *testing.T) {
	t.Run("stop before start, twice", func(t *testing.T) {
		a := New(Options{Queue: &fakeQueue{}, Plans: &job.PlanBook{}, Gate: NewGate(GateOptions{})})
		for range 2 {
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("stop answers those that wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, _ := begin(t, &fakeQueue{answer: script(job.ErrAmbiguous, job.Duplicate)}, 1)
			waits := make(chan result, 1)
			go func() { waits <- submit(t.Context(), a, job.Paid) }()
			synctest.Wait()
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if r := <-waits; r.err != nil {
				t.Errorf("the one that waited: %v", r.err)
			}
			if r := submit(t.Context(), a, job.Paid); !errors.Is(r.err, job.ErrUnhealthy) {
				t.Errorf("after stop: %v", r.err)
			}
		})
	})
	t.Run("stop does not hang", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			a, _ := begin(t, &fakeQueue{answer: func(context.Context, int, []job.Submission) ([]job.SubmitReply, error) {
				<-hold
				return nil, job.ErrAmbiguous
			}}, 1)
			go submit(t.Context(), a, job.Paid)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := a.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("stop: %v", err)
			}
			close(hold)
		})
	})
}

func TestMint_IDsGrow(t *testing.T) {
	m := newMint()
	var ids []job.ID
	for i := range 10000 {
		id, err := m.next(i % 256)
		if err != nil || id.Partition() != i%256 {
			t.Fatalf("id %s: %v", id, err)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 10000 {
		t.Error("ids do not grow")
	}
}
