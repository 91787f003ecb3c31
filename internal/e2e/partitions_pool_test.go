package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/internal/worker"
)

// claimsSeen records the leases of each claim, in order.
type claimsSeen struct {
	*queue.Queue
	mu      sync.Mutex
	calls   int
	slowest time.Duration
	order   []job.Lease
}

func (c *claimsSeen) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	began := time.Now()
	reply, err := c.Queue.Claim(ctx, partition, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, time.Since(began))
	c.calls++
	c.order = append(c.order, reply.Leases...)
	return reply, err
}

// poolOn makes a pool over a queue with handlers that take this long. The caller starts the pool.
func poolOn(e *queuetest.Env, q *queue.Queue, store worker.Queue, nonce string, slots int,
	takes time.Duration) *worker.Pool {
	registry := handler.NewRegistry()
	handler.Register(registry, queuetest.Job(job.Public).Type, func(context.Context, struct{}) (struct{}, error) {
		if takes > 0 {
			<-time.After(takes)
		}
		return struct{}{}, nil
	})
	return worker.New(worker.Config{
		Slots: slots, Partitions: e.Options.Partitions, PriorityBase: e.Options.PriorityBase,
		HeartbeatInterval: 500 * time.Millisecond, ResultLimit: 1024,
		DrainTimeout: 10 * time.Second, Registry: registry, Plans: e.Plans, Log: slog.New(slog.DiscardHandler), Nonce: nonce,
	}, store, q, q, deaf{})
}

// fill submits n jobs of all tiers, with calls to each partition in turn, and returns their ids in that order.
func fill(t *testing.T, e *queuetest.Env, n int) (ids []job.ID) {
	t.Helper()
	tiers := []job.Tier{job.Public, job.Unpaid, job.Public, job.Paid, job.Public}
	for first := 0; first < n; first += 10 {
		p := first / 10 % e.Options.Partitions
		var batch []job.Submission
		for i := first; i < first+10; i++ {
			s := queuetest.Job(tiers[i*7%len(tiers)])
			s.ID = queuetest.NewID(p)
			batch = append(batch, s)
			ids = append(ids, s.ID)
		}
		words, err := e.Words(t.Context(), p, batch)
		if err != nil || slices.ContainsFunc(words, func(w job.Word) bool { return w != job.OK }) {
			t.Fatal(words, err)
		}
	}
	return ids
}

// The real scripts run jobs over six partitions of one Redis in this order: strictly within each partition;
// strictly by tier, for jobs accepted before the first claim; within a tier, off the global order by at most a
// claim's worth, which the test counts. With a small base, where the score is a promise, the order of scores is
// exact.
func TestPartitionsOrder(t *testing.T) {
	t.Attr("proves", "S2-P2 S0-N5")
	t.Parallel()
	for _, c := range []struct {
		name string
		base int64
	}{{"strict tiers", 10_000_000_000_000}, {"a small base", 300_000}} {
		t.Run(c.name, func(t *testing.T) {
			queuetest.EachWith(t, func(o *queue.Options) { o.Partitions, o.PriorityBase = 6, c.base },
				func(t *testing.T, e *queuetest.Env) {
					jobs := int64(300)
					for try := range 20 {
						seen := drainSeen(t, e, jobs, fmt.Sprint("try-", try))
						prompt := seen.slowest < 200*time.Millisecond
						inOrder(t, seen, c.base, e.Plans, prompt)
						if prompt {
							return
						}
						// A partition that is silent this long is skipped for a while, on purpose. Then the order over all
						// partitions means nothing.
						t.Logf("a claim took %s: once more", seen.slowest)
						if try == 2 {
							jobs = 90 // 90 jobs are claimed so fast that a busy machine seldom interferes
						}
					}
					t.Error("each time a claim took 200 ms and more: the order over partitions was not seen")
				})
		})
	}
}

// drainSeen lets a pool run n jobs that were all submitted before it starts.
func drainSeen(t *testing.T, e *queuetest.Env, n int64, nonce string) *claimsSeen {
	t.Helper()
	fill(t, e, int(n))
	q := e.Process(nonce)
	seen := &claimsSeen{Queue: q}
	p := poolOn(e, q, seen, nonce, 16, 0)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 60*time.Second, "all jobs are done", func() (bool, string) {
		s := p.Stats()
		return s.Completed == n, fmt.Sprintf("%+v", s)
	})
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	return seen
}

// inOrder checks the order of claims, over all partitions only if each of them was prompt, and counts the
// deviations.
func inOrder(t *testing.T, seen *claimsSeen, base int64, plans *job.PlanBook, prompt bool) {
	t.Helper()
	score := func(l *job.Lease) int64 {
		plan, _ := plans.Plan(l.Tier)
		return int64(plan.Priority)*base + l.ArrivedAt.UnixMilli()
	}
	last := map[int]*job.Lease{}
	worst := int64(0) // the highest score, or tier, of the starts so far
	for i := range seen.order {
		l := &seen.order[i]
		if before := last[l.ID.Partition()]; before != nil &&
			(score(l) < score(before) || score(l) == score(before) && l.ID < before.ID) {
			t.Errorf("start %d: %s after %s in its partition", i, l.ID, before.ID)
		}
		last[l.ID.Partition()] = l
		is := score(l)
		if base > 300_000 {
			is /= base
		}
		if is < worst && prompt {
			t.Errorf("start %d: %s %s comes behind a worse one", i, l.Tier, l.ID)
		}
		worst = max(worst, is)
	}
	// The distance of each start from its place in the global order (score, then id).
	sorted := slices.Clone(seen.order)
	slices.SortStableFunc(sorted, func(a, b job.Lease) int {
		if d := score(&a) - score(&b); d != 0 {
			return int(d / max(d, -d))
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	place := map[job.ID]int{}
	for i, l := range sorted {
		place[l.ID] = i
	}
	early, most, sum := 0, 0, 0
	best := len(sorted) // the best place among the later starts
	for i := len(seen.order) - 1; i >= 0; i-- {
		at := place[seen.order[i].ID]
		if at > best {
			early++
		}
		best = min(best, at)
		off := max(at-i, i-at)
		most, sum = max(most, off), sum+off
	}
	n := len(seen.order)
	t.Logf("%d starts in %d claims over 6 partitions: %d before one that should have been earlier (%.0f %%); off their "+
		"place by %.1f on average, %d at most",
		n, seen.calls, early, 100*float64(early)/float64(n), float64(sum)/float64(n), most)
}

// Three processes on one queue each run a fair part of the jobs, with one partition and with several.
func TestPoolsShareFairly(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 6} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			t.Parallel()
			clients := queuetest.Connect(t, testkit.SharedRedisDB(t))
			e := queuetest.Open(t, clients, func(o *queue.Options) { o.Partitions = partitions })
			const jobs = 3000
			fill(t, e, jobs)
			var pools []*worker.Pool
			for i := range 3 {
				nonce := fmt.Sprint("pool-", i)
				q := e.Process(nonce)
				pools = append(pools, poolOn(e, q, q, nonce, 8, 4*time.Millisecond))
			}
			for _, p := range pools {
				if err := p.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			done := make([]int64, len(pools))
			testkit.Eventually(t, 60*time.Second, "all jobs are done", func() (bool, string) {
				all := int64(0)
				for i, p := range pools {
					done[i] = p.Stats().Completed
					all += done[i]
				}
				return all == jobs, fmt.Sprint(done)
			})
			given := int64(0)
			for _, p := range pools {
				given += p.Stats().Released
				if err := p.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			t.Logf("jobs by pool: %v; %d given back", done, given)
			for i, n := range done {
				if n <= jobs/5 {
					t.Errorf("pool %d got %d of %d jobs", i, n, jobs)
				}
			}
		})
	}
}
