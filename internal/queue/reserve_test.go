package queue_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// placeFor returns a reservation that a submit of the same job would be.
func placeFor(s job.Submission) job.Reservation {
	return job.Reservation{
		ID: s.ID, Tier: s.Tier, Owner: s.Owner, Generation: 1, Options: s.Options, Bytes: len(s.Payload), Quota: s.Quota,
		Waits: s.Delay > 0,
	}
}

// limitCase is one of all limits: four jobs reach it.
type limitCase struct {
	name   string
	set    func(o *queue.Options)
	change func(s *job.Submission)
	want   job.Word
}

func limitCases() []limitCase {
	none := func(*queue.Options) {}
	inFilms := func(o *queue.Options) {
		o.Queues = &job.QueueBook{}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 4}})
	}
	return []limitCase{
		{"quota", none, func(s *job.Submission) { s.Owner, s.Quota = "ann", 4 }, job.Quota},
		{"fresh", func(o *queue.Options) { o.Capacity = 4 }, func(*job.Submission) {}, job.Full},
		{"delayed", func(o *queue.Options) { o.ScheduledLimit = 4 },
			func(s *job.Submission) { s.Delay = time.Hour }, job.Full},
		{"delayedbytes", func(o *queue.Options) { o.LivingBytes = 80 },
			func(s *job.Submission) { s.Delay = time.Hour }, job.Full},
		{"living", func(o *queue.Options) { o.LivingLimit = 4 }, func(*job.Submission) {}, job.Full},
		{"bytes", func(o *queue.Options) { o.LivingBytes = 40 }, func(*job.Submission) {}, job.Full},
		{"queue", inFilms, func(s *job.Submission) { s.Queue = "films" }, job.Full},
		{"delayed in a queue", inFilms, func(s *job.Submission) { s.Queue, s.Delay = "films", time.Hour }, job.Full},
	}
}

func (c limitCase) job() job.Submission {
	s := queuetest.Job(job.Paid)
	s.Payload = []byte(`"12345678"`)
	c.change(&s)
	return s
}

func reserve(t *testing.T, e *queuetest.Env, all ...job.Reservation) (words []job.Word) {
	t.Helper()
	replies, err := e.Reserve(t.Context(), 0, all, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range replies {
		words = append(words, r.Word)
	}
	return words
}

// A reserved place counts in every limit exactly as the job itself: up to the limit, and never beyond it, also from 24
// callers at once, beside submits, and for several jobs of which one has no room. Given back it leaves nothing.
func TestReserve_Limits(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	for _, c := range limitCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			queuetest.EachWith(t, c.set, func(t *testing.T, e *queuetest.Env) {
				if err := e.SetLimits(t.Context(), 0, []job.LineLimits{{Name: "acme", Waiting: 4}}); err != nil {
					t.Fatal(err)
				}
				empty := e.Snapshot(t)
				three := []job.Reservation{placeFor(c.job()), placeFor(c.job()), placeFor(c.job())}
				words(t, reserve(t, e, three...), nil, job.OK, job.OK, job.OK)
				words(t, reserve(t, e, three[0]), nil, job.Duplicate)
				before := e.Snapshot(t)
				words(t, reserve(t, e, placeFor(c.job()), placeFor(c.job()), placeFor(c.job())), nil,
					job.OK, c.want, job.Empty)
				e.Unchanged(t, before)
				var group sync.WaitGroup
				var mu sync.Mutex
				var taken []job.Reserved
				got := map[job.Word]int{}
				for n := range 24 {
					s := c.job()
					group.Go(func() {
						var word job.Word
						if n%2 == 0 {
							replies, err := e.Reserve(t.Context(), 0, []job.Reservation{placeFor(s)}, false)
							if err != nil {
								t.Error(err)
								return
							}
							word = replies[0].Word
						} else {
							some, err := e.Words(t.Context(), 0, []job.Submission{s})
							if err != nil {
								t.Error(err)
								return
							}
							word = some[0]
						}
						mu.Lock()
						defer mu.Unlock()
						got[word]++
						if word == job.OK && n%2 == 0 {
							taken = append(taken, job.Reserved{ID: s.ID})
						}
					})
				}
				group.Wait()
				if got[job.OK] != 1 || got[c.want] != 23 {
					t.Errorf("at the limit: %v", got)
				}
				if found, err := e.Recount(t.Context(), 0, true); err != nil || len(found) > 0 {
					t.Errorf("the recount found %v, %v", found, err)
				}
				for _, r := range three {
					taken = append(taken, job.Reserved{ID: r.ID})
				}
				for range 2 {
					if err := e.Unreserve(t.Context(), 0, taken); err != nil {
						t.Fatal(err)
					}
				}
				if len(taken) == 4 {
					for field, n := range e.Snapshot(t).Counters {
						if n != empty.Counters[field] {
							t.Errorf("left is %s = %d", field, n)
						}
					}
				}
			})
		})
	}
}

// A job that comes takes its place; the copy of a job that was there before has none. A place of a job that SQL needs
// is kept, unless the job is there, and one that was asked for again is not given back.
func TestReserve_Restored(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		var rows []job.JournalRow
		var places []job.Reservation
		for n := range 3 {
			s := queuetest.Job(job.Paid)
			s.Owner, s.Quota = "ann", 3
			r := placeFor(s)
			r.Waits = n == 1
			places = append(places, r)
			rows = append(rows, job.JournalRow{Job: job.Job{
				ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner, Payload: s.Payload,
			}, Priority: 1})
		}
		words(t, reserve(t, e, places...), nil, job.OK, job.OK, job.OK)
		for _, want := range []job.Word{job.OK, job.Duplicate} {
			got, err := e.Restore(t.Context(), 0, rows[:2], time.Now())
			words(t, got, err, want, want)
		}
		words(t, reserve(t, e, places[:2]...), nil, job.Duplicate, job.Duplicate)
		snap := e.Snapshot(t)
		if len(snap.Reserved) != 1 || snap.Owners["ann"] != 3 || snap.Counters["fresh"] != 3 {
			t.Errorf("%v %v %v", snap.Reserved, snap.Owners, snap.Counters)
		}
		found, err := e.Reserving(t.Context(), 0, time.UnixMilli(e.Now(t)+1), 10)
		if err != nil || len(found) != 1 || found[0].ID != places[2].ID {
			t.Fatal(found, err)
		}
		<-time.After(2 * time.Millisecond)
		words(t, reserve(t, e, places[2]), nil, job.Duplicate)
		for step, left := range []int{1, 1, 0} {
			if step > 0 {
				if found, err = e.Reserving(t.Context(), 0, time.UnixMilli(e.Now(t)+1), 10); err != nil {
					t.Fatal(err)
				}
				found = append(found[:0], job.Reserved{ID: places[2].ID, Needed: step == 1})
			}
			if err := e.Unreserve(t.Context(), 0, found); err != nil {
				t.Fatal(err)
			}
			if n := len(e.Snapshot(t).Reserved); n != left {
				t.Errorf("step %d: %d places", step, n)
			}
		}
	})
}

// SQL's jobs get their places whatever the limits say, in every way in which jobs count.
func TestReserve_Forced(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 1 }, func(t *testing.T, e *queuetest.Env) {
		var all []job.Reservation
		for n := range 6 {
			s := queuetest.Job(job.Paid)
			s.Owner = "ann"
			r := placeFor(s)
			r.Waits, r.Started, r.Quota = n%3 == 1, n%3 == 2, 1
			all = append(all, r)
		}
		replies, err := e.Reserve(t.Context(), 0, all, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replies {
			if r.Word != job.OK {
				t.Error(r.Word)
			}
		}
		snap := e.Snapshot(t)
		same(t, "places", fmt.Sprint(snap.Counters["PAID:reserved"], snap.Counters["fresh"], snap.Counters["delayed"],
			snap.Owners["ann"]), "6 2 2 6")
	})
}
