package app

import (
	"context"
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
		Room: func(ctx context.Context, id job.ID, tier job.Tier, queue job.Queue, owner string, quota int) error {
			if err := v.view.QueueRoom(ctx, id, queue.Name, 1); err != nil {
				return err
			}
			return v.view.Room(ctx, id, tier, owner, quota)
		},
	}
	v.schedules = &schedule.Book{Rows: v.stores.archive, Options: o}
	if v.config.Roles.Recovery {
		v.firer = schedule.NewFirer(v.stores.archive, o)
	}
}
