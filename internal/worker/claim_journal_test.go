package worker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// fakeClaims is a journal that refuses claims until runs is true.
type fakeClaims struct {
	runs    bool
	claimed []job.Lease
	waits   []job.Waits
}

func (f *fakeClaims) Down() bool { return false }

func (f *fakeClaims) Claimed(_ context.Context, leases []job.Lease) error {
	if !f.runs {
		return job.ErrUnavailable
	}
	f.claimed = append(f.claimed, leases...)
	return nil
}

func (f *fakeClaims) Waits(_ context.Context, waits []job.Waits) error {
	f.waits = append(f.waits, waits...)
	return nil
}

// A claim that the journal refuses was executed all the same, so the error is not ErrUnavailable. Its jobs are
// released at no cost, and the next claim gets them.
func TestClaimWaitsForTheJournal(t *testing.T) {
	t.Attr("proves", "F14")
	e := queuetest.Embedded(t, func(*queue.Options) {})
	id := e.Put(t, job.Paid)
	j := &fakeClaims{}
	q := Journaled(e.Queue, j, slog.New(slog.DiscardHandler)).(*journaled)
	claim := e.NextClaim(1)
	reply, err := q.Claim(t.Context(), 0, claim)
	if !errors.Is(err, job.ErrAmbiguous) || errors.Is(err, job.ErrUnavailable) || len(reply.Leases) != 0 {
		t.Fatalf("%d leases, %v", len(reply.Leases), err)
	}
	if _, err := q.Claim(t.Context(), 0, e.NextClaim(1)); !errors.Is(err, job.ErrUnavailable) {
		t.Fatalf("while it rests: %v", err)
	}
	for range 3 {
		q.rest.until = time.Time{}
		if _, err := q.Claim(t.Context(), 0, e.NextClaim(1)); !errors.Is(err, job.ErrAmbiguous) {
			t.Fatal(err)
		}
	}
	if q.rest.long != 8*time.Second {
		t.Errorf("it rests for %s", q.rest.long)
	}
	q.rest.until = time.Time{}
	if waits, err := e.Find(t.Context(), id); err != nil || waits.Status != job.Pending || waits.RetryCount != 0 {
		t.Fatalf("%+v, %v", waits, err)
	}
	j.runs = true
	if reply, err = q.Claim(t.Context(), 0, claim); err != nil || len(reply.Leases) != 0 {
		t.Fatalf("the first claim asked again: %+v, %v", reply.Leases, err)
	}
	reply, err = q.Claim(t.Context(), 0, e.NextClaim(1))
	if err != nil || len(reply.Leases) != 1 {
		t.Fatalf("%+v, %v", reply.Leases, err)
	}
	if l := reply.Leases[0]; l.ID != id || l.Attempt != 5 || l.RetryCount != 0 {
		t.Fatalf("%+v", l)
	}
	if len(j.claimed) != 1 || j.claimed[0].ID != id || !j.claimed[0].Own {
		t.Errorf("the journal has %+v", j.claimed)
	}
	released, err := q.Release(t.Context(), 0, []job.Release{{LeaseRef: reply.Leases[0].Ref(), Delay: time.Minute}})
	if err != nil || released[0].Word != job.OK {
		t.Fatalf("%+v, %v", released, err)
	}
	if len(j.waits) != 1 || j.waits[0].Spent != 0 || j.waits[0].Due.IsZero() {
		t.Errorf("the journal heard of %+v", j.waits)
	}
}

// The journal learns whose a claim is: the pool of this process dies with its Redis, other workers do not.
func TestClaimsOfOthersAreNotOwn(t *testing.T) {
	e := queuetest.Embedded(t, func(*queue.Options) {})
	e.Put(t, job.Paid)
	j := &fakeClaims{runs: true}
	claim := e.NextClaim(1)
	claim.Elsewhere = &job.Elsewhere{
		Worker: e.Options.Nonce, ID: "one", Delivery: "aa", Queues: []string{job.MainQueue}, Lease: time.Minute,
		Low: math.Inf(-1),
	}
	reply, err := Journaled(e.Queue, j, slog.New(slog.DiscardHandler)).Claim(t.Context(), 0, claim)
	if err != nil || len(reply.Leases) != 1 || len(j.claimed) != 1 || j.claimed[0].Own {
		t.Errorf("%+v, %v; the journal has %+v", reply.Leases, err, j.claimed)
	}
}
