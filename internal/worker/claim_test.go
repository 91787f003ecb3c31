package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func quick(context.Context) (string, error) { return "done", nil }

// A claim whose reply was lost is repeated under the same number, so its leases are received.
func TestClaimIsResentWithItsNumber(t *testing.T) {
	t.Attr("proves", "F27")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		var calls int
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			if calls++; calls <= 3 {
				return job.ClaimReply{}, []error{job.ErrAmbiguous, job.ErrUnavailable, job.ErrAmbiguous}[calls-1]
			}
			return r.queue.pop(req), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(3 * time.Second)
		r.stop(t)
		asked := r.queue.asked()
		for i, a := range asked[:4] {
			if a != asked[0] {
				t.Errorf("request %d = %+v, want %+v again", i, a, asked[0])
			}
		}
		for i, a := range asked[4:] {
			if a.Number != asked[0].Number+int64(i)+1 {
				t.Errorf("then number %d, want each claim to have the next one", a.Number)
			}
		}
		if done, _, _ := r.queue.endings(); len(done) != 1 || done[0].Token != "nonce:1" {
			t.Errorf("completed %+v, want the one job once", done)
		}
	})
}

// A claim that only ended jobs whose time was over is followed by the next one at once.
func TestClaimGoesOnAfterExpiredJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		expired := 20
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			if expired > 0 {
				expired--
				return job.ClaimReply{Next: 1e13, Expired: 1}, nil
			}
			return r.queue.pop(req), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(time.Millisecond)
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Errorf("completed %+v after a millisecond, want the job behind the expired ones", done)
		}
		r.stop(t)
	})
}

func TestClaimOutageIsNotAnEmptyQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		var down atomic.Bool
		at := make(chan time.Time, 100)
		down.Store(true)
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			at <- time.Now()
			if down.Load() {
				return job.ClaimReply{}, job.ErrUnavailable
			}
			return r.queue.pop(req), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(10 * time.Second)
		if waits, _ := r.bell.seen(); waits != 0 {
			t.Errorf("waited for the doorbell %d times: the outage was read as an empty queue", waits)
		}
		if n := len(at); n < 10 || n > 20 {
			t.Errorf("%d calls in 10 s of outage, want a back-off from 100 ms to 1 s", n)
		}
		if first := -(<-at).Sub(<-at); first < 75*time.Millisecond || first > 100*time.Millisecond {
			t.Errorf("second call after %v", first)
		}
		down.Store(false)
		after(time.Second)
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Errorf("a second after the outage %d jobs are done, want 1", len(done))
		}
		r.stop(t)
	})
}

// Leases that arrive too late to start are released at no cost.
func TestClaimAnsweredTooLateIsGivenBack(t *testing.T) {
	cases := []struct {
		name  string
		delay time.Duration
		stop  bool
		runs  bool
	}{
		{"while it stops", time.Second, true, false},
		{"after the lease stopped being ours for certain", 4100 * time.Millisecond, false, false},
		{"in time", 3 * time.Second, false, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				r := newRig(func(context.Context) (string, error) { runs.Add(1); return "", nil })
				first := true
				r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
					if first {
						first = false
						<-time.After(c.delay)
					}
					return r.queue.pop(req), nil
				}
				r.queue.push(work(1, job.Public))
				r.start(t)
				synctest.Wait()
				if !c.stop {
					after(c.delay + time.Second)
				}
				r.stop(t)
				done, _, back := r.queue.endings()
				if c.runs != (runs.Load() == 1) || c.runs != (len(done) == 1) || c.runs == (len(back) == 1) {
					t.Errorf("ran %d times, %d completed, %d released, want run = %v", runs.Load(), len(done), len(back), c.runs)
				}
				if len(back) == 1 && back[0].Delay != 0 {
					t.Errorf("released with a delay of %v", back[0].Delay)
				}
			})
		})
	}
}

// Stop waits for a claim whose answer was lost, because it may have leases. It does not wait for a claim that was
// certainly not executed.
func TestClaimAmbiguousAtStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		begin := time.Now()
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			if time.Since(begin) < time.Second {
				return job.ClaimReply{}, job.ErrAmbiguous
			}
			return r.queue.pop(req), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		r.stop(t)
		if _, _, back := r.queue.endings(); len(back) != 1 {
			t.Errorf("%d leases of the lost reply were given back, want 1", len(back))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.queue.claim = func(job.ClaimRequest) (job.ClaimReply, error) { return job.ClaimReply{}, job.ErrUnavailable }
		r.start(t)
		synctest.Wait()
		begin := time.Now()
		r.stop(t)
		if took := time.Since(begin); took != 0 {
			t.Errorf("Stop took %v for a claim that was never executed", took)
		}
	})
}

func TestSlots(t *testing.T) {
	t.Attr("proves", "S2-N12 S4-N8 S0-N3")
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		r := newRig(func(context.Context) (string, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Second)
			running.Add(-1)
			return "", nil
		}, func(c *Config) { c.Slots = 3 })
		for i := range 10 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(500 * time.Millisecond)
		if s := r.Stats(); s.Slots != 3 || s.Running != 3 || s.Free != 0 || s.Claimed != 3 {
			t.Errorf("stats = %+v, want three of three slots taken", s)
		}
		after(4 * time.Second)
		if s := r.Stats(); most.Load() != 3 || s.Completed != 10 || s.Free != 3 || s.Undelivered != 0 {
			t.Errorf("most at a time %d, stats %+v, want 3 and all ten done", most.Load(), s)
		}
		for _, a := range r.queue.asked() {
			if a.Max < 1 || a.Max > 3 || !math.IsInf(a.Bound, 1) {
				t.Errorf("claimed %+v with three slots and one partition", a)
			}
		}
		r.stop(t)
	})
}

func TestClaimIsAtMostABatch(t *testing.T) {
	t.Attr("proves", "S0-N4 S4-N2")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) { <-time.After(time.Second); return "", nil },
			func(c *Config) { c.Slots = 250 })
		for i := range 300 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(100 * time.Millisecond)
		want := []int{100, 100, 50}
		for i, a := range r.queue.asked() {
			if i >= len(want) || a.Max != want[i] {
				t.Fatalf("claims %+v, want Max %v", r.queue.asked(), want)
			}
		}
		after(3 * time.Second)
		if s := r.Stats(); s.Completed != 300 {
			t.Errorf("completed %d of 300", s.Completed)
		}
		r.stop(t)
	})
}

// While the store accepts no endings, the pool stops claiming, because more jobs would only add endings.
func TestClaimPausesBehindUndeliveredEndings(t *testing.T) {
	t.Attr("proves", "S4-N8")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		var down atomic.Bool
		down.Store(true)
		r.queue.complete = func(batch []job.Completion) ([]job.EndReply, error) {
			if down.Load() {
				return nil, job.ErrAmbiguous
			}
			return all(job.OK, len(batch)), nil
		}
		for i := range 1000 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(5 * time.Second)
		if s := r.Stats(); s.Undelivered < 208 || s.Undelivered > 212 || s.Completed != 0 {
			t.Errorf("stats = %+v, want claims to pause near 4 * 2 + 200 undelivered endings", s)
		}
		down.Store(false)
		after(2 * time.Second)
		if s := r.Stats(); s.Completed != 1000 || s.Undelivered != 0 {
			t.Errorf("stats = %+v, want all 1000 completed after the outage", s)
		}
		r.stop(t)
	})
}

// A job that makes every answer unreadable does not end all claiming.
func TestUnreadableClaimIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			if req.Number == 1 {
				return job.ClaimReply{}, errors.New("claim: a head that cannot be read")
			}
			return r.queue.pop(req), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(5 * time.Second)
		r.stop(t)
		tries := 0
		for _, a := range r.queue.asked() {
			if a.Number == 1 {
				tries++
			}
		}
		if done, _, _ := r.queue.endings(); tries != claimTries || len(done) != 1 {
			t.Errorf("%d tries, %d jobs done, want %d tries and then the next claim", tries, len(done), claimTries)
		}
	})
}

func TestClaimDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.queue.claim = func(job.ClaimRequest) (job.ClaimReply, error) { return job.ClaimReply{Next: 1e13}, nil }
		r.start(t)
		after(10 * time.Second)
		if n := len(r.queue.asked()); n > 20 {
			t.Errorf("%d claims in 10 s of a queue that promises a job and gives none", n)
		}
		r.stop(t)
	})
}

// A freed slot leads to a claim, because the pool does not wait at the doorbell while all slots are busy.
func TestFreedSlotLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(5100 * time.Millisecond); return "", nil },
			func(c *Config) { c.Slots = 1 })
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		r.queue.push(work(2, job.Paid)) // without a signal
		after(5100 * time.Millisecond)
		if s := r.Stats(); s.Claimed != 2 {
			t.Errorf("%d jobs claimed when the slot was freed, want the second", s.Claimed)
		}
		after(6 * time.Second)
		r.stop(t)
	})
}

// partitions is a fake queue of scores in several partitions.
type partitions struct {
	*fakeQueue
	scores [][]float64
	claims map[int][]job.ClaimRequest
	ended  map[int]int
}

func (p *partitions) Claim(_ context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims[partition] = append(p.claims[partition], r)
	reply := job.ClaimReply{Next: math.Inf(1)}
	left := p.scores[partition]
	for len(left) > 0 && left[0] <= r.Bound && len(reply.Leases) < r.Max {
		id := job.ID(fmt.Sprintf("0197b1d2-0000-7000-8000-%010d%02x", int(left[0]), partition))
		reply.Leases = append(reply.Leases,
			job.Lease{Job: job.Job{ID: id, Tier: job.Paid, Type: "WORK", Attempt: 1}, Token: "t"})
		left = left[1:]
	}
	if p.scores[partition] = left; len(left) > 0 {
		reply.Next = left[0]
	}
	return reply, nil
}

func (p *partitions) Complete(_ context.Context, partition int, b []job.Completion) ([]job.EndReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range b {
		if c.ID.Partition() == partition {
			p.ended[partition]++
		}
	}
	return all(job.OK, len(b)), nil
}

// The best job runs first, whatever partition it is in.
func TestClaimsInOrderOverPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			order = append(order, string(run.ID[33:34]))
			<-time.After(time.Second)
			return "", nil
		}, func(c *Config) { c.Slots, c.Partitions = 1, 3 })
		q := &partitions{r.queue, [][]float64{{2, 3, 7}, {}, {1, 4, 5, 6, 8}}, map[int][]job.ClaimRequest{}, map[int]int{}}
		r.Pool.queue = q
		r.start(t)
		after(9 * time.Second)
		r.stop(t)
		if got := strings.Join(order, ""); got != "12345678" {
			t.Errorf("order = %s", got)
		}
		if q.ended[0] != 3 || q.ended[2] != 5 {
			t.Errorf("endings by partition = %v", q.ended)
		}
		for p, requests := range q.claims {
			for i, r := range requests {
				if r.Number != int64(i)+1 {
					t.Errorf("claim %d of partition %d has number %d", i, p, r.Number)
				}
			}
		}
	})
}
