package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// Forget removes only jobs that ended at least LeastMemory ago, whose outcome SQL has, and that ended at before or
// earlier.
func TestForget(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		old, dead, cancelled, middle := e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid)
		young, running := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Finish(t, old, middle, young)
		e.Bury(t, dead)
		e.Cancels(t, cancelled.ID)
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: cancelled.Ref()}})
		ends(t, got, err, job.WasCancelled)
		e.Drain(t)
		unrecorded := e.Start(t, job.Paid)
		e.Finish(t, unrecorded)
		waiting := e.Put(t, job.Public)

		e.AgeEnd(t, time.Hour, old.ID, dead.ID, cancelled.ID, unrecorded.ID)
		e.AgeEnd(t, 10*time.Minute, middle.ID)
		e.AgeEnd(t, job.LeastMemory/2, young.ID)
		all := []job.ID{
			old.ID, dead.ID, cancelled.ID, middle.ID, young.ID, unrecorded.ID, running.ID, waiting, queuetest.NewID(0), old.ID,
		}
		now := e.Now(t)
		names := make([]string, len(all))
		for i, id := range all {
			names[i] = queuetest.SliceOf(string(id))
		}

		gone, stayed, err := e.Forget(t.Context(), 0, names, 0)
		if gone != 0 || err != nil {
			t.Fatal("asked for none:", gone, err)
		}
		same(t, "jobs that could go", len(stayed), 5) // one id is named twice
		gone, stayed, err = e.Forget(t.Context(), 0, names, now-(30*time.Minute).Milliseconds())
		if gone != 3 || err != nil {
			t.Error("ended half an hour ago:", gone, err)
		}
		same(t, "jobs that could go", len(stayed), 1)
		if ago := now - stayed[0]; ago < (9*time.Minute).Milliseconds() || ago > (11*time.Minute).Milliseconds() {
			t.Errorf("the job in the middle ended %d ms ago", ago)
		}
		gone, _, err = e.Forget(t.Context(), 0, names, now+time.Hour.Milliseconds()) // a before in the future
		if gone != 1 || err != nil {
			t.Error("all that may go:", gone, err)
		}
		snap := e.Snapshot(t)
		left := []job.ID{young.ID, unrecorded.ID, running.ID, waiting}
		same(t, "jobs that stay", len(snap.Jobs), len(left))
		for _, id := range left {
			if snap.Jobs[string(id)] == nil {
				t.Errorf("%s is gone", id)
			}
		}
		if wrong := snap.Audit(); len(wrong) > 0 {
			t.Error(wrong)
		}
		found, err := e.Requeue(t.Context(), 0, []job.Job{{
			ID: dead.ID, Generation: 2, Attempt: 1, Tier: job.Paid, Type: "X", Payload: []byte("{}"), MaxRetries: 2,
		}})
		words(t, found, err, job.OK) // a requeue needs only what SQL has
	})
}

// A slice goes as a whole: not before SQL has all of its jobs, and not before its last job ended long ago.
func TestForgetKeepsMates(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first, second := queuetest.Job(job.Paid), queuetest.Job(job.Paid)
		second.ID = queuetest.MateOf(first.ID)
		e.PutAll(t, first, second)
		leases := e.Take(t, 2)
		slice := []string{queuetest.SliceOf(string(first.ID))}
		forget := func(when string, want int) {
			t.Helper()
			gone, _, err := e.Forget(t.Context(), 0, slice, e.Now(t))
			if err != nil {
				t.Fatal(err)
			}
			same(t, when, gone, want)
		}
		e.Finish(t, leases[0])
		e.Drain(t)
		e.AgeEnd(t, time.Hour, leases[0].ID)
		e.Finish(t, leases[1])
		forget("while SQL lacks the second job", 0)
		e.Drain(t)
		forget("while the second job has just ended", 0)
		e.AgeEnd(t, time.Hour, leases[1].ID)
		forget("in the end", 2)
		same(t, "jobs", len(e.Snapshot(t).Jobs), 0)
	})
}

// A walk meets every job of the server, those that it removes and those that stay.
func TestForgetWalk(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		const n = 700 // more than a step reads
		var done []job.ID
		for len(done) < n {
			jobs := make([]job.Submission, job.MaxBatch)
			for i := range jobs {
				jobs[i] = queuetest.Job(job.Paid)
			}
			e.PutAll(t, jobs...)
			leases := e.Take(t, len(jobs))
			e.Finish(t, leases...)
			e.Drain(t)
			for _, l := range leases {
				done = append(done, l.ID)
			}
		}
		e.AgeEnd(t, time.Hour, done[:n/2]...)
		e.AgeEnd(t, 30*time.Minute, done[n/2:]...)
		walk := func(before int64) (gone int, stayed []int64) {
			servers, err := e.Memory(t.Context())
			if err != nil || len(servers) == 0 {
				t.Fatal(servers, err)
			}
			for _, m := range servers {
				for at, more := uint64(0), true; more; more = at != 0 {
					step, err := e.ForgetStep(t.Context(), m.Server, at, before)
					if err != nil {
						t.Fatal(err)
					}
					gone, stayed, at = gone+step.Gone, append(stayed, step.Stayed...), step.Next
				}
			}
			return gone, stayed
		}
		gone, stayed := walk(0)
		if gone != 0 || len(stayed) < n {
			t.Fatalf("%d gone, %d met", gone, len(stayed))
		}
		slices.Sort(stayed)
		gone, _ = walk(stayed[n/2-1])
		same(t, "the older half is gone", gone, n/2)
		same(t, "the other one is not", len(e.Snapshot(t).Jobs), n/2)
	})
}

func TestMemoryIsRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.ServerMemory{
		"# Memory\r\nused_memory:1000\r\nmem_not_counted_for_evict:100\r\nmaxmemory:2000\r\n": {Used: 900, Max: 2000},
		"used_memory:1000\r\nused_memory_human:1K\r\nmaxmemory:0\r\n":                         {Used: 1000},
		"": {},
	} {
		if got := queue.ReadMemory(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
