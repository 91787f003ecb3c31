package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// parts is a store of several partitions, each with room for a number of jobs. It recognizes a job under any id by
// its TraceID.
type parts struct {
	mu      sync.Mutex
	room    []int
	word    job.Word // the answer if there is no room
	trouble func(partition int) error
	repeats bool              // a partition that did not execute a call may be asked again, if no other is left
	asked   map[string][]int  // partitions, by trace
	has     map[string]job.ID // accepted, by trace
	entries int
}

func newParts(room ...int) *parts {
	return &parts{room: room, word: job.Full, asked: map[string][]int{}, has: map[string]job.ID{}}
}

func (s *parts) Submit(_ context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range batch {
		if b.ID.Partition() != partition {
			return nil, fmt.Errorf("id %s in partition %d", b.ID, partition)
		}
		s.asked[b.TraceID] = append(s.asked[b.TraceID], partition)
		s.entries++
	}
	if s.trouble != nil {
		if err := s.trouble(partition); err != nil {
			return nil, err
		}
	}
	replies := make([]job.SubmitReply, len(batch))
	for i, b := range batch {
		switch {
		case s.has[b.TraceID] == b.ID:
			replies[i].Word = job.Duplicate
		case s.room[partition] == 0:
			replies[i].Word = s.word
		default:
			s.room[partition]--
			s.has[b.TraceID] = b.ID
			replies[i].Word = job.OK
		}
	}
	return replies, nil
}

// askedFor returns the partitions that were asked to take a job, in order.
func (s *parts) askedFor(trace string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[trace])
}

// check compares the callers' results with the jobs in the store, and counts the accepted ones.
func (s *parts) check(t *testing.T, results map[string]result) (accepted int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for trace, r := range results {
		if r.err == nil {
			accepted++
		}
		if id := s.has[trace]; (r.err == nil) != (id != "") || r.err == nil && r.id != id {
			t.Errorf("%s: told %s, %v; the store has %q", trace, r.id, r.err, id)
		}
		if seen := slices.Sorted(slices.Values(s.asked[trace])); !s.repeats &&
			len(slices.Compact(seen)) != len(s.asked[trace]) {
			t.Errorf("%s: asked %v, one of them twice", trace, s.asked[trace])
		}
	}
	return accepted
}

func (a *Admission) one(ctx context.Context, trace, key string) result {
	begun := time.Now()
	accepted, err := a.Submit(ctx, job.Submission{
		Tier: job.Paid, Type: "SIMULATION", MaxRetries: -1, TraceID: trace, Owner: "ann", Quota: 5,
		Idempotency: job.Idempotency{Key: key},
	})
	return result{accepted.ID, err, time.Since(begun), accepted.Replayed}
}

// flood submits n jobs at once.
func flood(t *testing.T, a *Admission, n int) map[string]result {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	results := map[string]result{}
	for i := range n {
		group.Go(func() {
			trace := fmt.Sprint("job ", i)
			r := a.one(t.Context(), trace, "")
			mu.Lock()
			defer mu.Unlock()
			results[trace] = r
		})
	}
	group.Wait()
	return results
}

// A submit that one partition has no room for goes to another, so that exactly the whole capacity is used. The
// same holds for a quota.
func TestElsewhere_EveryPlaceIsUsed(t *testing.T) {
	for word, want := range map[job.Word]error{job.Full: job.ErrQueueFull, job.Quota: job.ErrQuota} {
		t.Run(string(word), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newParts(0, 3, 17, 20)
				s.word = word
				a, _ := begin(t, s, 4)
				results := flood(t, a, 100)
				if n := s.check(t, results); n != 40 {
					t.Errorf("%d of 100 accepted, there was room for 40", n)
				}
				for trace, r := range results {
					var refusal *Refusal
					if r.err != nil && (!errors.Is(r.err, want) || !errors.As(r.err, &refusal) || refusal.RetryAfter < time.Second) {
						t.Errorf("%s: %v", trace, r.err)
					}
				}
			})
		})
	}
	t.Run("one after the other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newParts(10, 10, 10, 10)
			a, _ := begin(t, s, 4)
			results := map[string]result{}
			for i := range 50 {
				trace := fmt.Sprint("job ", i)
				results[trace] = a.one(t.Context(), trace, "")
			}
			if n := s.check(t, results); n != 40 {
				t.Errorf("%d of 50 accepted, there was room for 40", n)
			}
		})
	})
	t.Run("a batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newParts(0, 3, 17, 20)
			a, _ := begin(t, s, 4)
			batch := make([]job.Submission, 250)
			for i := range batch {
				batch[i] = job.Submission{Tier: job.Public, Type: "SIMULATION", TraceID: fmt.Sprint("job ", i)}
			}
			results := map[string]result{}
			for i, r := range a.SubmitBatch(t.Context(), batch) {
				results[batch[i].TraceID] = result{id: r.ID, err: r.Err}
			}
			if n := s.check(t, results); n != 40 {
				t.Errorf("%d of 250 accepted, there was room for 40", n)
			}
		})
	})
}

// A flood that no partition has room for costs about one call per submit, not one per partition. A moment later
// there is room, and it is used.
func TestElsewhere_AFullQueueIsNotAskedByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(make([]int, 16)...)
		a, _ := begin(t, s, 16)
		const n = 400
		for i := range n {
			if r := a.one(t.Context(), fmt.Sprint("job ", i), ""); !errors.Is(r.err, job.ErrQueueFull) {
				t.Fatalf("%d: %v", i, r.err)
			}
		}
		if s.entries > n+16 {
			t.Errorf("%d questions for %d submits", s.entries, n)
		}
		s.mu.Lock()
		s.room[11] = 1
		s.mu.Unlock()
		pass(shortMemory + time.Millisecond)
		if r := a.one(t.Context(), "late", ""); r.err != nil || r.id.Partition() != 11 {
			t.Errorf("with one place: %v, %v", r.id, r.err)
		}
	})
}

// All submits with one key go to the key's home partition: only there a repeat is recognized.
func TestElsewhere_AKeyStaysAtHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(0, 9, 9, 9)
		a, gate := begin(t, s, 4)
		if r := a.one(t.Context(), "keyed", "0000aa"); !errors.Is(r.err, job.ErrQueueFull) || len(s.askedFor("keyed")) != 1 {
			t.Errorf("%v, asked %v", r.err, s.askedFor("keyed"))
		}
		for range 3 {
			gate.Observe(0, job.ErrUnavailable)
		}
		var refusal *Refusal
		r := a.one(t.Context(), "closed", "0000aa")
		if !errors.Is(r.err, job.ErrUnhealthy) || !errors.As(r.err, &refusal) || refusal.RetryAfter < time.Second ||
			len(s.askedFor("closed")) != 0 {
			t.Errorf("its home is closed: %v, asked %v", r.err, s.askedFor("closed"))
		}
		batch := a.SubmitBatch(t.Context(), []job.Submission{
			{Tier: job.Paid, Type: "SIMULATION", TraceID: "batch", Idempotency: job.Idempotency{Key: "0000aa"}},
			{Tier: job.Paid, Type: "SIMULATION", TraceID: "free"},
		})
		if !errors.Is(batch[0].Err, job.ErrUnhealthy) || batch[1].Err != nil {
			t.Errorf("in a batch: %v, %v", batch[0].Err, batch[1].Err)
		}
	})
}

// Only a submit that a partition certainly did not take goes to another one. A submit in doubt is sent again to
// the same partition only.
func TestElsewhere_NotInDoubt(t *testing.T) {
	t.Attr("proves", "F27")
	for name, c := range map[string]struct {
		err   error
		moves bool
	}{"certainly not executed": {job.ErrUnavailable, true}, "its answer is lost": {job.ErrAmbiguous, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newParts(9, 9)
				s.trouble = func(partition int) error {
					if partition == 1 { // the first in turn
						return c.err
					}
					return nil
				}
				a, _ := begin(t, s, 2)
				r := a.one(t.Context(), "it", "")
				if c.moves && (r.err != nil || r.id.Partition() != 0 || r.took != 0 || len(s.askedFor("it")) != 2) {
					t.Errorf("%s, %v after %s, asked %v", r.id, r.err, r.took, s.askedFor("it"))
				}
				if !c.moves && (!errors.Is(r.err, job.ErrFateUnknown) || r.id.Partition() != 1 ||
					slices.Contains(s.askedFor("it"), 0)) {
					t.Errorf("%s, %v, asked %v", r.id, r.err, s.askedFor("it"))
				}
			})
		})
	}
}

// Submits avoid a closed partition, and submits that wait for a partition when it closes go to another one.
func TestElsewhere_AroundAClosedPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(99, 99, 99)
		hold := make(chan struct{})
		q := holding{s, hold}
		a, gate := begin(t, q, 3)
		waits := make(chan result, 2)
		for i := range 4 { // one in a call of partitions 1, 2 and 0 each, and one that waits behind the first
			trace := fmt.Sprint("early ", i)
			go func() { waits <- a.one(t.Context(), trace, "") }()
			synctest.Wait()
		}
		for range 3 {
			gate.Observe(1, job.ErrAmbiguous)
		}
		close(hold)
		for range 4 {
			if r := <-waits; r.err != nil {
				t.Error(r.err)
			}
		}
		for i := range 30 {
			if r := a.one(t.Context(), fmt.Sprint("late ", i), ""); r.err != nil || r.id.Partition() == 1 {
				t.Errorf("%s, %v", r.id, r.err)
			}
		}
		for p := range 3 {
			for range 3 {
				gate.Observe(p, job.ErrUnavailable)
			}
		}
		if r := a.one(t.Context(), "none", ""); !errors.Is(r.err, job.ErrUnhealthy) || gate.Open() {
			t.Errorf("all are closed: %v", r.err)
		}
	})
}

// holding blocks every call until hold is closed.
type holding struct {
	*parts
	hold chan struct{}
}

func (h holding) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error) {
	<-h.hold
	return h.parts.Submit(ctx, partition, batch)
}

// Callers leave, partitions refuse, fail and close, all at once. Each caller whose job is accepted has the id
// under which it is.
func TestElsewhere_UnderFire(t *testing.T) {
	t.Parallel()
	s := newParts(slices.Repeat([]int{40}, 8)...)
	s.repeats = true
	calls := 0
	s.trouble = func(int) error {
		if calls++; calls%5 == 0 {
			return job.ErrUnavailable
		}
		return nil
	}
	a, gate := begin(t, s, 8)
	var mu sync.Mutex
	var group sync.WaitGroup
	results := map[string]result{}
	for i := range 800 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch i % 10 {
			case 0:
				cancel()
			case 1:
				gate.Observe(i%4, job.ErrAmbiguous) // four of the eight close
			}
			trace := fmt.Sprint("job ", i)
			r := a.one(ctx, trace, "")
			if errors.Is(r.err, context.Canceled) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			results[trace] = r
		})
	}
	group.Wait()
	n := s.check(t, results)
	why := map[string]int{}
	for _, r := range results {
		why[fmt.Sprint(r.err)]++
	}
	t.Logf("%d of %d accepted: %v", n, len(results), why)
	if n > 320 || n < 160 {
		t.Errorf("%d accepted", n)
	}
}

// If no partition executes anything, each is asked in turn, the last one a few times, and then the submit is
// refused. A submit that the first partition refused for the capacity gets that error: it says more than that no
// other partition could be asked.
func TestElsewhere_HasAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		well map[int]bool
		want error
	}{"nobody executes": {nil, job.ErrUnhealthy}, "one is full": {map[int]bool{1: true}, job.ErrQueueFull}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newParts(0, 0, 0)
				s.trouble = func(partition int) error {
					if c.well[partition] {
						return nil
					}
					return job.ErrUnavailable
				}
				a, _ := begin(t, s, 3)
				r := a.one(t.Context(), "it", "")
				asked := s.askedFor("it")
				if !errors.Is(r.err, c.want) || len(asked) != 2+fewTries || r.took != 2*pause {
					t.Errorf("%v after %s, asked %v", r.err, r.took, asked)
				}
			})
		})
	}
}

// A caller that leaves is answered at once, also after its submit has moved.
func TestElsewhere_LeavingAfterItMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := make(chan struct{})
		q := &fakeQueue{answer: func(ctx context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			if call == 1 {
				return all(job.Full, batch), nil
			}
			close(moved)
			return frozen(ctx, call, batch)
		}}
		a, _ := begin(t, q, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-moved
			cancel()
		}()
		if r := submit(ctx, a, job.Paid); !errors.Is(r.err, context.Canceled) || r.took != 0 {
			t.Errorf("%v after %s", r.err, r.took)
		}
	})
}

// A partition without room for a tier's delayed jobs may have room for the delayed jobs of another tier.
func TestRefusals_KnowTheTierOfDelayedJobs(t *testing.T) {
	t.Parallel()
	submission := func(tier job.Tier, delay time.Duration) *job.Submission {
		return &job.Submission{Tier: tier, Delay: delay}
	}
	var lately refusals
	lately.note(submission(job.Public, time.Minute), job.ErrQueueFull)
	for want, all := range map[bool][]*job.Submission{
		true:  {submission(job.Public, time.Hour)},
		false: {submission(job.Paid, time.Minute), submission(job.Public, 0), submission(job.Paid, 0)},
	} {
		for _, s := range all {
			if (lately.why(s) != nil) != want {
				t.Errorf("%s, delayed by %s: refused %v", s.Tier, s.Delay, !want)
			}
		}
	}
}

// A partition in which one queue is full may have room for jobs of other queues.
func TestRefusals_KnowTheQueue(t *testing.T) {
	t.Parallel()
	submission := func(queue string) *job.Submission {
		return &job.Submission{Tier: job.Public, Options: job.Options{Queue: queue}}
	}
	var lately refusals
	lately.note(submission("films"), job.ErrOwnLimit)
	if lately.why(submission("films")) == nil {
		t.Error("a full queue is asked again at once")
	}
	for _, queue := range []string{"", "thumbnails"} {
		if err := lately.why(submission(queue)); err != nil {
			t.Errorf("queue %q: %v", queue, err)
		}
	}
}
