package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A claim that the journal does not take was carried out all the same: it must not pass for one that never was. Its jobs are given back at no
// cost, and the next claim hands them out.
func TestClaimWaitsForTheJournal(t *testing.T) {
	t.Attr("proves", "F14")
	a, err := archive.Open(archive.Options{SQLitePath: filepath.Join(t.TempDir(), "tierq.sqlite"), Journal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := queuetest.Embedded(t, func(*queue.Options) {})
	id := e.Put(t, job.Paid)
	j := archive.NewJournal(a, archive.JournalOptions{})
	q := journaled{Queue: e.Queue, journal: j, rest: &rest{}, log: slog.New(slog.DiscardHandler)}
	claim := e.NextClaim(1)
	reply, err := q.Claim(t.Context(), 0, claim) // the journal does not run: job.ErrUnavailable
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
	if err := j.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Stop(context.Background()) }()
	if reply, err = q.Claim(t.Context(), 0, claim); err != nil || len(reply.Leases) != 0 {
		t.Fatalf("the first claim asked again: %+v, %v", reply.Leases, err)
	}
	reply, err = q.Claim(t.Context(), 0, e.NextClaim(1))
	if err != nil || len(reply.Leases) != 1 || reply.Leases[0].ID != id || reply.Leases[0].Attempt != 5 || reply.Leases[0].RetryCount != 0 {
		t.Fatalf("%+v, %v", reply.Leases, err)
	}
	row, err := a.Journaled(t.Context(), id)
	if err != nil || row.Status != job.Processing {
		t.Errorf("the journal has it as %s, %v", row.Status, err)
	}
	e.Finish(t, reply.Leases...)
}
