package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// parts is a fake store of several partitions, some of which may be in trouble.
type parts struct {
	mu      sync.Mutex
	ready   [][]float64                                    // scores, in order
	trouble func(ctx context.Context, partition int) error // the error of every call; nil = none
	endings func(ctx context.Context, partition int) error // the error of completions only
	claims  []int
	taken   []int // leases handed out
	done    []int
	given   []int // released
	beats   [][]time.Time
	waits   int
}

func newParts(n int) *parts {
	return &parts{ready: make([][]float64, n), claims: make([]int, n), taken: make([]int, n), done: make([]int, n),
		given: make([]int, n), beats: make([][]time.Time, n)}
}

// put adds n jobs with the same score.
func (s *parts) put(partition, n int, score float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[partition] = append(s.ready[partition], slices.Repeat([]float64{score}, n)...)
	slices.Sort(s.ready[partition])
}

func (s *parts) asked(ctx context.Context, partition int) error {
	s.mu.Lock()
	trouble := s.trouble
	s.mu.Unlock()
	if trouble == nil {
		return nil
	}
	return trouble(ctx, partition)
}

func (s *parts) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	s.mu.Lock()
	s.claims[partition]++
	s.mu.Unlock()
	if err := s.asked(ctx, partition); err != nil {
		return job.ClaimReply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := job.ClaimReply{Next: math.Inf(1)}
	left := s.ready[partition]
	for len(left) > 0 && left[0] <= r.Bound && len(reply.Leases) < r.Max {
		s.taken[partition]++
		id := job.ID(fmt.Sprintf("0197b1d2-0000-7000-8000-%010d%02x", s.taken[partition], partition))
		reply.Leases = append(reply.Leases,
			job.Lease{Job: job.Job{ID: id, Tier: job.Paid, Type: "WORK", Attempt: 1, RetryCount: int(left[0])}, Token: "t"})
		left = left[1:]
	}
	if s.ready[partition] = left; len(left) > 0 {
		reply.Next = left[0]
	}
	return reply, nil
}

func (s *parts) Complete(ctx context.Context, partition int, b []job.Completion) ([]job.EndReply, error) {
	if err := s.asked(ctx, partition); err != nil {
		return nil, err
	}
	if s.endings != nil {
		if err := s.endings(ctx, partition); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[partition] += len(b)
	return all(job.OK, len(b)), nil
}

func (s *parts) Fail(context.Context, int, []job.Failure) ([]job.EndReply, error) {
	panic("no job fails here")
}

func (s *parts) Release(_ context.Context, partition int, b []job.Release) ([]job.EndReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given[partition] += len(b)
	return all(job.OK, len(b)), nil
}

func (s *parts) Heartbeat(ctx context.Context, partition int, b []job.Beat) ([]job.Word, error) {
	if err := s.asked(ctx, partition); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, beat := range b {
		if beat.ID.Partition() != partition {
			return nil, fmt.Errorf("%s in partition %d", beat.ID, partition)
		}
	}
	s.beats[partition] = append(s.beats[partition], time.Now())
	return slices.Repeat([]job.Word{job.OK}, len(b)), nil
}

// Wait never returns a token: jobs are found by asking.
func (s *parts) Wait(ctx context.Context, partition int) error {
	s.mu.Lock()
	s.waits++
	s.mu.Unlock()
	if err := s.asked(ctx, partition); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

func (s *parts) Ring(context.Context, int) error { return nil }

func (s *parts) sees() (claims, done, given []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.claims), slices.Clone(s.done), slices.Clone(s.given)
}

// inTrouble sets the error of all calls for one partition; nil = they succeed.
func (s *parts) inTrouble(partition int, how func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = func(ctx context.Context, p int) error {
		if p != partition || how == nil {
			return nil
		}
		return how(ctx)
	}
}

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", job.ErrAmbiguous, ctx.Err())
}
func fails(context.Context) error { return job.ErrUnavailable }

// rigOf returns a pool over a store of several partitions.
func rigOf(s *parts, slots int, fn func(context.Context) (string, error)) *rig {
	r := newRig(fn, func(c *Config) { c.Slots, c.Partitions, c.PriorityBase = slots, len(s.ready), 10_000_000_000_000 })
	r.Pool.queue, r.Pool.pulse, r.Pool.bell = s, s, s
	return r
}

func takes(d time.Duration) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { <-time.After(d); return "", nil }
}

// A partition that hangs or fails does not delay the jobs of the others; its own jobs run when it is back.
func TestTroubleOfAPartitionHoldsNobody(t *testing.T) {
	for name, how := range map[string]func(context.Context) error{"hangs": hangs, "fails": fails} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newParts(4)
				for p := range 4 {
					s.put(p, 300, 1e13)
				}
				s.inTrouble(0, how)
				r := rigOf(s, 10, takes(10*time.Millisecond))
				r.start(t)
				after(2 * time.Second) // 900 jobs of 10 ms on ten slots take 0.9 s
				claims, done, given := s.sees()
				if done[1]+done[2]+done[3] != 900 || done[0] != 0 {
					t.Errorf("done: %v", done)
				}
				if claims[0] > 10 {
					t.Errorf("the one in trouble was asked %d times in 2 s", claims[0])
				}
				if given[1]+given[2]+given[3] != 0 {
					t.Errorf("given back: %v", given)
				}
				s.inTrouble(0, nil)
				after(15 * time.Second) // the longest call, and the partition's jobs
				if _, done, given := s.sees(); done[0]+given[0] != 300 || given[0] > 10 {
					t.Errorf("after it: done %v, given back %v", done, given)
				}
				r.stop(t)
			})
		})
	}
}

// Unanswered heartbeats of some partitions do not delay those of the others.
func TestHeartbeatsOfAPartitionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 8
		s := newParts(n)
		for p := range n {
			s.put(p, 1, 1e13)
		}
		r := rigOf(s, n, takes(10*time.Second))
		r.start(t)
		after(100 * time.Millisecond)
		s.mu.Lock()
		s.trouble = func(ctx context.Context, partition int) error {
			if partition < n-1 {
				return hangs(ctx)
			}
			return nil
		}
		s.mu.Unlock()
		begin := time.Now()
		after(5 * time.Second)
		s.mu.Lock()
		last := begin
		for _, at := range s.beats[n-1] {
			if gap := at.Sub(last); gap > time.Second {
				t.Errorf("%v between two heartbeats of a partition that is well", gap)
			}
			last = at
		}
		if len(s.beats[n-1]) < 9 || len(s.beats[0]) != 0 {
			t.Errorf("heartbeats: %d and %d", len(s.beats[n-1]), len(s.beats[0]))
		}
		s.trouble = nil
		s.mu.Unlock()
		after(20 * time.Second)
		r.stop(t)
	})
}

// A partition that hands out jobs and accepts no endings gets no more work after a while; the others do.
func TestEndingsOfAPartitionPileUpAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(3)
		for p := range 3 {
			s.put(p, 1000, 1e13)
		}
		well := false
		s.endings = func(_ context.Context, partition int) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if partition == 0 && !well {
				return job.ErrAmbiguous
			}
			return nil
		}
		r := rigOf(s, 10, takes(time.Millisecond))
		r.start(t)
		after(3 * time.Second)
		_, done, _ := s.sees()
		if done[1] != 1000 || done[2] != 1000 || done[0] != 0 {
			t.Errorf("done %v", done)
		}
		if n := r.Stats().Undelivered; n < 60 || n > 80 {
			t.Errorf("%d endings wait, want a quarter of 4 * 10 + 200, and what ran", n)
		}
		s.mu.Lock()
		well = true
		s.mu.Unlock()
		after(5 * time.Second)
		if _, done, _ := s.sees(); done[0] != 1000 {
			t.Errorf("after it: done %v", done)
		}
		r.stop(t)
	})
}

// Leases of a late answer, whose slots others have taken, are released at no cost: there are never more handlers
// than slots.
func TestLateAnswerFindsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(2)
		s.put(0, 10, 1e13)
		s.put(1, 200, 1e13+1)
		late := true
		s.trouble = func(_ context.Context, partition int) error {
			s.mu.Lock()
			first := late && partition == 0 && s.claims[0] == 2 // the first claim only looked
			late = late && !first
			s.mu.Unlock()
			if first {
				<-time.After(525 * time.Millisecond)
			}
			return nil
		}
		var mu sync.Mutex
		running, most := 0, 0
		r := rigOf(s, 4, func(context.Context) (string, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(50 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return "", nil
		})
		r.start(t)
		after(10 * time.Second)
		r.stop(t)
		_, done, given := s.sees()
		if back := given[0] + given[1]; most != 4 || back < 1 || back > 4 || done[0]+done[1]+back != 210 {
			t.Errorf("%d handlers at a time; done %v, given back %v", most, done, given)
		}
	})
}

// A better job in another partition is found while the pool is busy with a long queue of one partition and does
// not wait at the doorbells.
func TestBetterJobElsewhereIsSeenWhileBusy(t *testing.T) {
	t.Attr("proves", "S0-N5")
	synctest.Test(t, func(t *testing.T) {
		const base = 10_000_000_000_000
		var first time.Time
		s := newParts(3)
		s.put(0, 10_000, 3*base)
		r := rigOf(s, 4, func(ctx context.Context) (string, error) {
			if run, _ := handler.Running(ctx); run.RetryCount == base && first.IsZero() {
				first = time.Now()
			}
			<-time.After(10 * time.Millisecond)
			return "", nil
		})
		r.start(t)
		after(time.Second)
		s.put(2, 1, base)
		at := time.Now()
		after(200 * time.Millisecond)
		if waited := first.Sub(at); first.IsZero() || waited > 40*time.Millisecond {
			t.Errorf("it began after %v", waited)
		}
		claims, _, _ := s.sees()
		if claims[1] > 120 {
			t.Errorf("an empty partition was looked at %d times in 1.2 s", claims[1])
		}
		s.mu.Lock()
		s.ready[0] = nil
		s.mu.Unlock()
		after(time.Second)
		r.stop(t)
	})
}

// An idle pool asks each partition about once a second. WakeAt makes it ask only the named partition.
func TestIdleOverManyPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(64)
		r := rigOf(s, 4, quick)
		r.start(t)
		after(time.Second + time.Second/2)
		s.mu.Lock()
		before, waits := slices.Clone(s.claims), s.waits
		s.mu.Unlock()
		after(10 * time.Second)
		now, _, _ := s.sees()
		for p := range now {
			if n := now[p] - before[p]; n < 9 || n > 11 {
				t.Errorf("partition %d was asked %d times in 10 s", p, n)
			}
		}
		s.mu.Lock()
		if n := s.waits - waits; n < 600 || n > 680 {
			t.Errorf("%d waits at 64 doorbells in 10 s", n)
		}
		s.mu.Unlock()
		after(100 * time.Millisecond)
		before, _, _ = s.sees()
		s.put(7, 1, 1e13)
		r.WakeAt(7)
		after(time.Millisecond)
		now, done, _ := s.sees()
		others := 0
		for p := range now {
			if p != 7 {
				others += now[p] - before[p]
			}
		}
		if done[7] != 1 || others != 0 {
			t.Errorf("done %d; the others were asked %d times", done[7], others)
		}
		r.stop(t)
	})
}

// Stop waits for the claims of a silent partition and releases their jobs.
func TestStopBringsClaimsHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newParts(3)
		s.put(1, 5, 1e13)
		s.trouble = func(_ context.Context, partition int) error {
			if partition == 1 {
				<-time.After(time.Second)
			}
			return nil
		}
		r := rigOf(s, 4, quick)
		r.start(t)
		after(1100 * time.Millisecond) // the partition was looked at, and is now asked for jobs
		r.stop(t)
		if _, done, given := s.sees(); s.taken[1] == 0 || done[1]+given[1] != s.taken[1] || given[1] == 0 {
			t.Errorf("%d leases; done %v, given back %v", s.taken[1], done, given)
		}
	})
}
