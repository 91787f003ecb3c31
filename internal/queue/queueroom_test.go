package queue_test

import (
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// QueueRoom gives the same answer as a submit into the queue.
func TestQueueRoom_AsASubmit(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) {
		o.Queues = &job.QueueBook{}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 3}, {Name: "books"}})
		o.Capacity = 8 // books has a quarter of it
	}, func(t *testing.T, e *queuetest.Env) {
		room := func(name string, n int, want error) {
			t.Helper()
			if err := e.QueueRoom(t.Context(), queuetest.NewID(0), name, n); !errors.Is(err, want) ||
				(err == nil) != (want == nil) {
				t.Errorf("%d into %s: %v, want %v", n, name, err, want)
			}
		}
		room("films", 3, nil)
		room("films", 4, job.ErrOwnLimit)
		room("books", 2, nil)
		room("books", 3, job.ErrOwnLimit)
		room(job.MainQueue, 1000, nil)
		three := make([]job.Submission, 4)
		for i := range three {
			three[i] = queuetest.Job(job.Paid)
			three[i].Queue = "films"
		}
		got, err := e.Words(t.Context(), 0, three)
		words(t, got, err, job.OK, job.OK, job.OK, job.Full)
		room("films", 1, job.ErrOwnLimit)
		room("books", 2, nil)
	})
}
