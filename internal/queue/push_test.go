package queue_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// The pool of a process claims no jobs of a queue that pushes, although it serves the queue, and takes none of its
// doorbell's tokens: both are for the claims with which the jobs are posted.
func TestClaim_QueuesThatPush(t *testing.T) {
	t.Parallel()
	for name, serves := range map[string][]string{"with main": {"films", "main"}, "alone": {"films"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			push := job.Queue{Name: "films", Push: job.Push{URL: "https://x.example/"}}
			queuetest.EachWith(t, func(o *queue.Options) {
				o.Queues, o.Serves = &job.QueueBook{}, serves
				o.Queues.Set([]job.Queue{push})
			}, func(t *testing.T, e *queuetest.Env) {
				s := queuetest.Job(job.Paid)
				s.Queue = "films"
				if replies, err := e.Submit(t.Context(), 0, []job.Submission{s}); err != nil || replies[0].Word != job.OK {
					t.Fatal(replies, err)
				}
				reply, err := e.Claim(t.Context(), 0, job.ClaimRequest{Number: 1, Max: 10, Bound: math.Inf(1)})
				if err != nil || len(reply.Leases) != 0 || !math.IsInf(reply.Next, 1) {
					t.Fatalf("the pool claims %+v, %v", reply, err)
				}
				if err := e.Wait(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				if rang, err := e.WaitIn(t.Context(), 0, []string{"films"}); rang != "films" || err != nil {
					t.Errorf("%q rang, %v: the pool took the token", rang, err)
				}
				reply, err = e.Claim(t.Context(), 0, job.ClaimRequest{Max: 10, Bound: math.Inf(1), Elsewhere: &job.Elsewhere{
					Worker: "w", ID: "c", Delivery: "d", Queues: []string{"films"}, Lease: time.Minute, Low: math.Inf(-1),
				}})
				if err != nil || len(reply.Leases) != 1 {
					t.Errorf("a worker elsewhere claims %+v, %v", reply, err)
				}
			})
		})
	}
}

// A doorbell of no queue waits as one that does not ring, and ends with its context.
func TestWait_NoQueues(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		if rang, err := e.WaitIn(t.Context(), 0, nil); rang != "" || err != nil {
			t.Errorf("%q, %v", rang, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.WaitIn(ctx, 0, nil); err == nil {
			t.Error("it does not end with its context")
		}
	})
}
