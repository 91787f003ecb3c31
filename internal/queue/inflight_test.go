package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestInFlight(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 2 }, func(t *testing.T, e *queuetest.Env) {
		for p := range 2 {
			var batch []job.Submission
			for i := range 15 {
				s := queuetest.Job([]job.Tier{job.Paid, job.Unpaid, job.Public}[i%3])
				s.ID = queuetest.NewID(p)
				batch = append(batch, s)
			}
			if _, err := e.Submit(t.Context(), p, batch); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := e.InFlight(t.Context(), 20); err != nil || len(got) != 0 {
			t.Errorf("nothing runs: %v, %v", got, err)
		}
		taken := e.Take(t, 15)
		got, err := e.InFlight(t.Context(), 12)
		if err != nil || len(got) != 12 {
			t.Fatalf("%d, %v, %d taken", len(got), err, len(taken))
		}
		for i, r := range got {
			if i > 0 && r.HeartbeatBy.Before(got[i-1].HeartbeatBy) {
				t.Errorf("%d is out of order", i)
			}
			plan := job.DefaultPlans()[map[job.Tier]int{job.Paid: 0, job.Unpaid: 1, job.Public: 2}[r.Tier]]
			if r.HeartbeatBy.Sub(r.StartedAt) != plan.HeartbeatTimeout || r.EndBy.Sub(r.StartedAt) != plan.MaxProcessingTime ||
				r.Attempt != 1 || r.Worker == "" || r.Type == "" {
				t.Errorf("%+v: %v", r, time.Now())
			}
		}
	})
}
