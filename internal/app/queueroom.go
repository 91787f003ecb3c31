package app

import (
	"context"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// inQueue is a job that is accepted together with others, and the queue in which it will wait.
type inQueue struct {
	id    job.ID
	queue string
}

// queueRoom says whether the queues have room for all of the jobs. If a queue has not, at is the place of its first
// job, and the error is job.ErrOwnLimit; if all have, at is -1.
func queueRoom(ctx context.Context, view *queue.View, jobs []inQueue) (at int, err error) {
	type place struct {
		queue     string
		partition int
	}
	count, first := map[place]int{}, map[place]int{}
	for i, j := range jobs {
		p := place{j.queue, j.id.Partition()}
		if count[p]++; count[p] == 1 {
			first[p] = i
		}
	}
	for p, n := range count {
		if err := view.QueueRoom(ctx, jobs[first[p]].id, p.queue, n); err != nil {
			return first[p], err
		}
	}
	return -1, nil
}
