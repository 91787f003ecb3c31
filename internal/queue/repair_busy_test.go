package queue_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// records are the outcomes that SQL has: SQL has an outcome before Redis learns of it.
type records struct {
	mu    sync.Mutex
	jobs  map[job.ID][]job.Recorded
	ended int
}

func (r *records) add(o job.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
	r.jobs[o.ID] = append(r.jobs[o.ID], job.Recorded{Generation: o.Generation, Status: o.Status})
}

func (r *records) of(id job.ID) []job.Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[id]
}

func (r *records) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// busy runs a process that submits, claims, ends, drains and requeues jobs until done is closed.
func busy(t *testing.T, q *queue.Queue, sql *records, done <-chan struct{}) {
	ctx := t.Context()
	record := func(o job.Outcome) error {
		sql.add(o)
		_, err := q.Acknowledge(ctx, 0, []job.Ack{{ID: o.ID, Generation: o.Generation, Attempt: o.Attempt, Status: o.Status}})
		return err
	}
	for number := int64(1); ; number++ {
		select {
		case <-done:
			return
		default:
		}
		batch := make([]job.Submission, 10)
		for i := range batch {
			batch[i] = queuetest.Job([]job.Tier{job.Paid, job.Unpaid, job.Public}[rand.IntN(3)])
			batch[i].Owner = []string{"", "ann", "bob"}[rand.IntN(3)]
			if rand.IntN(8) == 0 {
				batch[i].Delay = time.Millisecond
			}
		}
		_, errSubmit := q.Submit(ctx, 0, batch)
		_, errPromote := q.Promote(ctx, 0)
		_, errCancel := q.Cancel(ctx, 0, []job.Cancellation{{ID: batch[0].ID}, {ID: batch[1].ID}})
		reply, errClaim := q.Claim(ctx, 0, job.ClaimRequest{Number: number, Max: 20, Bound: 1e18})
		for _, err := range []error{errSubmit, errPromote, errCancel, errClaim} {
			if err != nil {
				t.Error(err)
				return
			}
		}
		for i := range reply.Leases {
			ref := reply.Leases[i].Ref()
			verb := []string{"complete", "complete", "complete", "fail", "fail", "release", "later"}[rand.IntN(7)]
			replies, err := writes[verb](ctx, q, ref)
			if err == nil && verb == "complete" && replies[0].Word == job.OK { // written to SQL from memory
				o := job.Outcome{Job: reply.Leases[i].Job}
				o.Status = job.Completed
				err = record(o)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		out, err := q.TakeOutbox(ctx, 0, 50)
		if err != nil {
			t.Error(err)
			return
		}
		for _, o := range out {
			err := record(o)
			if err == nil && o.Status == job.Failed {
				o.Generation++
				_, err = queuetest.Requeue(ctx, q, 0, []job.Job{o.Job})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
}

// The audit of a healthy, busy queue finds nothing, whenever it looks: every script leaves consistent data, and
// every look is one step.
func TestAuditOfABusyQueueFindsNothing(t *testing.T) {
	t.Parallel()
	// jobs also vanish during the walk
	fast := func(o *queue.Options) { o.Retention, o.FailedRetention = 0, time.Minute }
	queuetest.EachWith(t, fast, func(t *testing.T, e *queuetest.Env) {
		sql := &records{jobs: map[job.ID][]job.Recorded{}}
		done := make(chan struct{})
		var group sync.WaitGroup
		for _, nonce := range []string{"a", "b", "c"} {
			q := e.Process(nonce)
			group.Go(func() { busy(t, q, sql, done) })
		}
		passes := 0
		for began := time.Now(); (passes < 5 || sql.count() < 150) && time.Since(began) < 30*time.Second &&
			!t.Failed(); passes++ {
			if found := pass(t, e.Queue, sql.of); found != nil {
				t.Errorf("pass %d: %v", passes, found)
			}
		}
		close(done)
		group.Wait()
		t.Logf("evidence: %d passes while %d jobs ended", passes, sql.count())
		if passes < 5 || sql.count() < 150 {
			t.Error("too slow")
		}
	})
}
