package app

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/schedule"
)

// scheduled gives Redis the jobs of schedules, and then wakes the pool of this process.
type scheduled struct {
	*ledger.Ledger
	wake func()
}

func (s scheduled) GiveRows(ctx context.Context, rows []job.JournalRow, since time.Time) (int, error) {
	n, err := s.Ledger.GiveRows(ctx, rows, since)
	s.wake()
	return n, err
}

// wireSchedules makes the Firer, which fires schedules, and the Book, which operators change them with.
func (v *server) wireSchedules(wake func()) {
	o := schedule.Options{
		Plans: v.plans, Queues: v.queueBook, Pauses: v.pauseBook, Jobs: scheduled{v.ledger, wake},
		Partitions: v.config.Partitions, Now: v.view.Now, Open: v.gate.OpenAt, Log: v.log,
		Occurred: v.metrics.Occurred,
		Key: func(ctx context.Context, id string) (job.Key, error) {
			k, err := v.stores.access.APIKey(ctx, id)
			return k.Key, err
		},
		Reserve: func(ctx context.Context, r *job.JournalRow, quota int) error {
			_, err := v.places.Reserve(ctx, []job.Reservation{placeOf(&r.Job, quota)})
			return err
		},
		Free: func(ctx context.Context, id job.ID) { v.places.Free(ctx, []job.ID{id}) },
	}
	v.schedules = &schedule.Book{Rows: v.stores.archive, Options: o}
	if v.config.Roles.Recovery {
		v.firer = schedule.NewFirer(v.stores.archive, o)
	}
}

// placeOf returns the place that a job of SQL needs in Redis.
func placeOf(j *job.Job, quota int) job.Reservation {
	return job.Reservation{
		ID: j.ID, Tier: j.Tier, Owner: j.Owner, Generation: j.Generation, Options: j.Options, Bytes: len(j.Payload),
		Quota: quota, Waits: !j.RunAt.IsZero(),
	}
}

// quotaOf returns how many living jobs an API key may have; 0 = any number. SQL has every key that was ever made, so a
// key that it does not have is that of TIERQ_ADMIN_KEY, which has no quota.
func (v *server) quotaOf(ctx context.Context, owner string) (int, error) {
	if owner == "" {
		return 0, nil
	}
	k, err := v.stores.access.APIKey(ctx, owner)
	if errors.Is(err, job.ErrNoKey) {
		return 0, nil
	}
	return k.InFlight, err
}
