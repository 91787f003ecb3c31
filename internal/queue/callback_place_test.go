package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// withCallback returns a job with a callback, of an owner that may have one living job.
func withCallback() job.Submission {
	s := owned("ann", 1)
	s.CallbackURL, s.Payload = "https://example.com/", []byte(`"12345678"`)
	return s
}

// The callback of a job takes over the job's place, whatever the job's end is: between the end and the moment at which
// Redis gets the callback, its owner has no place for another job. A cancelled job has no callback.
func TestCallback_TakesOver(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	late := func(s *job.Submission) { s.ExpiresMs = time.Now().Add(-time.Minute).UnixMilli() }
	ends := map[string]struct {
		change func(s *job.Submission)
		end    func(t *testing.T, e *queuetest.Env, id job.ID)
	}{
		"completed": {nil, func(t *testing.T, e *queuetest.Env, _ job.ID) { e.Finish(t, e.Take(t, 1)...) }},
		"failed":    {nil, func(t *testing.T, e *queuetest.Env, _ job.ID) { e.Bury(t, e.Take(t, 1)[0]) }},
		"crashed": {func(s *job.Submission) { s.MaxRetries = 0 }, func(t *testing.T, e *queuetest.Env, id job.ID) {
			e.Take(t, 1)
			e.Reap(t, job.Crashed, id)
		}},
		"killed": {nil, func(t *testing.T, e *queuetest.Env, id job.ID) { e.Kills(t, id) }},
		"expired": {late, func(t *testing.T, e *queuetest.Env, _ job.ID) {
			if _, err := e.Queue.Expire(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}},
		"expired, found by a claim": {late, func(t *testing.T, e *queuetest.Env, _ job.ID) {
			if _, err := e.Claim(t.Context(), 0, e.NextClaim(1)); err != nil {
				t.Fatal(err)
			}
		}},
		"cancelled": {nil, func(t *testing.T, e *queuetest.Env, id job.ID) { e.Cancels(t, id) }},
		"cancelled while it runs": {nil, func(t *testing.T, e *queuetest.Env, id job.ID) {
			l := e.Take(t, 1)[0]
			e.Cancels(t, id)
			if _, err := e.Complete(t.Context(), 0, []job.Completion{{LeaseRef: l.Ref(), Result: []byte("1")}}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
				s := withCallback()
				if c.change != nil {
					c.change(&s)
				}
				e.PutAll(t, s)
				c.end(t, e, s.ID)
				if len(e.Drain(t)) != 1 {
					t.Fatal("it has not ended")
				}
				another := func(what string, want job.Word) {
					t.Helper()
					got, err := e.Words(t.Context(), 0, []job.Submission{owned("ann", 1)})
					words(t, got, err, want)
					if t.Failed() {
						t.Fatal(what)
					}
				}
				if name == "cancelled" || name == "cancelled while it runs" {
					another("the job was cancelled", job.OK)
					return
				}
				another("the callback is owed", job.Quota)
				callback := living(job.CallbackID(s.ID, 1), func(l *job.JournalRow) { l.Owner = "ann" })
				for _, want := range []job.Word{job.OK, job.Duplicate} {
					restore(t, e, []job.JournalRow{callback}, want)
					owners(t, e, "the callback waits", map[string]int64{"ann": 1})
					another("the callback waits", job.Quota)
				}
				if n := len(e.Snapshot(t).Reserved); n != 0 {
					t.Errorf("%d places are left", n)
				}
				e.Finish(t, e.Take(t, 1)...)
				another("the callback has ended", job.OK)
			})
		})
	}
}

// The callback of a later generation is another job, and the place of one that was never needed can be given back.
func TestCallback_OfAnotherGeneration(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		s := withCallback()
		e.PutAll(t, s)
		e.Bury(t, e.Take(t, 1)[0])
		for _, o := range e.Drain(t) {
			next := o.Job
			next.Generation++
			if _, err := e.Requeue(t.Context(), 0, []job.Job{next}); err != nil {
				t.Fatal(err)
			}
		}
		e.Finish(t, e.Take(t, 1)...)
		places, _, err := e.ScanReserved(t.Context(), 0, "")
		if err != nil || len(places) != 2 {
			t.Fatal(places, err)
		}
		of := map[job.ID]string{}
		for _, p := range places {
			of[p.ID] = p.Ended
		}
		for generation, ended := range map[int]string{1: string(s.ID) + ":1", 2: string(s.ID) + ":2"} {
			if got := of[job.CallbackID(s.ID, generation)]; got != ended {
				t.Errorf("generation %d: %q", generation, got)
			}
		}
		if err := e.Unreserve(t.Context(), 0, places); err != nil {
			t.Fatal(err)
		}
		owners(t, e, "given back", map[string]int64{})
	})
}
