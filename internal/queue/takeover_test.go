package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A process that takes the data over from another one gives the external workers half a minute to find it. Their leases
// stay valid. One whose worker is not heard of is taken back at no cost, and so is what the pool of the process before
// still had.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		pools := e.Start(t, job.Public)
		ids := e.PutAll(t, queuetest.Job(job.Public), queuetest.Job(job.Public))
		leases := elsewhere(t, e, "a", "1", 2, "main")
		if len(leases) != 2 {
			t.Fatalf("claimed %+v", leases)
		}
		e.Expire(t, job.Crashed, ids...)
		e.Expire(t, job.Stuck, ids...)
		if err := e.TakeOver(t.Context(), e.Options.Nonce); err != nil {
			t.Fatal(err)
		}
		for _, w := range watches {
			if found := e.Look(t, w); len(found) > 0 {
				t.Errorf("%s: a look finds %v", w, found)
			}
		}
		beat := job.Beat{LeaseRef: leases[0].Ref(), Timeout: 20 * time.Second}
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat})
		words(t, got, err, job.OK)
		e.Age(t, "heartbeat_deadlines", 31*time.Second)
		all := append(ids, pools.ID)
		for id, word := range e.Reap(t, job.Crashed, all...) {
			same(t, "word of "+string(id), word, job.OK)
		}
		for id, want := range map[job.ID]int{ids[0]: 1, ids[1]: 0, pools.ID: 0} {
			j, err := e.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "retries of "+string(id), j.RetryCount, want) // the worker of the first was heard of, and died then
		}
		if bell, err := e.WaitIn(t.Context(), 0, []string{job.MainQueue}); err != nil || bell != job.MainQueue {
			t.Errorf("the doorbell: %q %v", bell, err)
		}
	})
}

// What is about the process alone, or about the moment, is not taken over.
func TestOfProcess(t *testing.T) {
	t.Parallel()
	e := queuetest.Embedded(t, func(o *queue.Options) { o.Nonce, o.Partitions = "p1", 2 })
	for key, want := range map[string]bool{
		"{tierq:1}:claims:p1": true, "{tierq:1}:events": true, "{tierq:0}:alarms": true, "{tierq:1}:doorbell": true,
		"{tierq:0}:doorbell:films": true, "{tierq:1}:probe": true, "{tierq}:probe": true, "{tierq}:lease:audit": true,
		"{tierq}:system:config": true, "{tierq}:system:config:tier:PAID": true,
		"{tierq:1}:claims:key.w~a": false, "{tierq:1}:leases": false, "{tierq}:system:config:queues": false,
		"{tierq}:paused": false, "{tierq:0}:unique:0a": false, "{tierq:0}:faktory:0a": false, "{tierq}:workers": false,
	} {
		if got := e.OfProcess(key); got != want {
			t.Errorf("%s: %t", key, got)
		}
	}
}
