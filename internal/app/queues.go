package app

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
)

// queues reads the declared queues from the QueueBook, counts their jobs, and changes them in both stores.
type queues struct {
	*job.QueueBook
	*ledger.Queues
	server *server
}

// declared returns the queues as the parts of this process see them.
func (v *server) declared() queues { return queues{v.queueBook, v.queues, v} }

func (q queues) Count(name string) job.QueueCount {
	levels := q.server.viewPoller.last().levels
	if name != job.MainQueue {
		l := levels.Queues[name]
		return job.QueueCount{Ready: l.Ready, Scheduled: l.Scheduled, Running: l.Running}
	}
	n := job.QueueCount{} // main has the jobs of all tiers that no declared queue has
	for _, l := range levels.Tiers {
		n.Ready, n.Scheduled, n.Running = n.Ready+l.Ready, n.Scheduled+l.Scheduled, n.Running+l.Running
	}
	for _, l := range levels.Queues {
		n.Ready, n.Scheduled, n.Running = n.Ready-l.Ready, n.Scheduled-l.Scheduled, n.Running-l.Running
	}
	return n
}

// stats returns the figures of main and of each declared queue, by name.
func (q queues) stats(workers []job.WorkerInfo) []httpapi.QueueStats {
	main, _ := q.Find(job.MainQueue)
	all := append([]job.Queue{main}, q.All()...)
	stats := make([]httpapi.QueueStats, len(all))
	for i, one := range all {
		n := q.Count(one.Name)
		stats[i] = httpapi.QueueStats{Queue: one.Name, Depth: n.Ready, Scheduled: n.Scheduled, InFlight: n.Running}
		if p, on := q.server.pauseBook.Find(job.PauseQueue(one.Name)); on {
			stats[i].Paused = &p.Since
		}
		for w := range workers {
			if workers[w].Serves(one.Name) {
				stats[i].Workers++
			}
		}
	}
	return stats
}

func (q queues) Limit(of job.Queue) int { return of.LimitOf(q.server.config.Capacity) }

// PurgeQueue cancels ready jobs of a queue, see ledger.Ledger.Purge.
func (q queues) PurgeQueue(ctx context.Context, name string) (cancelled int, more bool, err error) {
	return q.server.ledger.Purge(ctx, name)
}

// rememberedQueues is rememberedPlans for queues.
func (v *server) rememberedQueues(ctx context.Context) ([]job.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return v.stores.archive.Queues(ctx)
}
