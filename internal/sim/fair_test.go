package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// tenant is a key of lines that always has jobs waiting or, with a rate, submits so many per second.
type tenant struct {
	key    string
	mean   time.Duration // its jobs run for this long, 0.5 to 1.5 times
	weight int
	rate   float64
}

// fairness is what tenants got: their shares of the worker time, and how long the jobs of those with a rate waited.
type fairness struct {
	shares []float64
	worked []float64       // seconds
	waits  []time.Duration // sorted
}

// shared plays the scripts in virtual time: so many slots claim and complete the jobs of tenants.
func shared(t *testing.T, slots int, warm, lasts time.Duration, tenants ...tenant) (f fairness) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f = share(t, slots, warm, lasts, tenants) })
	return f
}

// running is an attempt in the simulation of fairness.
type running struct {
	lease job.Lease
	ends  time.Time
	of    int
	began time.Time
}

func share(t *testing.T, slots int, warm, lasts time.Duration, tenants []tenant) fairness {
	t.Helper()
	s, err := newStore(false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c := newClient(func(_ context.Context, c *call) (any, error) {
		if !c.script() {
			return s.do(c.args...)
		}
		reply, err := s.eval(sources[c.name], c.args[:c.keys], c.args[c.keys:])
		if err != nil {
			return nil, refusal(err.Error())
		}
		return reply, nil
	})
	defer func() { _ = c.Close() }()
	plans := &job.PlanBook{}
	plan := job.DefaultPlans()[0]
	plan.Lines = job.LinesKey
	plans.Set([]job.Plan{plan})
	q := queue.New(queue.Clients{Main: c, Read: c, Worker: c, Bell: c, Beat: c, Rate: c}, plans, queue.Options{
		Nonce: "fair", Partitions: 1, PriorityBase: base, Capacity: 1_000_000, ScheduledLimit: 1_000_000, Embedded: true,
		HeartbeatInterval: time.Second, Retention: time.Minute, FailedRetention: time.Minute, KeepEnded: 1_000_000,
	})
	ctx, r := t.Context(), rand.New(rand.NewPCG(1, 2))
	if _, err := q.ReadClock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.HSet(ctx, queue.Key(0, "counters"), "-", 1).Err(); err != nil { // SQL has no places here
		t.Fatal(err)
	}
	for _, one := range tenants {
		if err := q.SetLimits(ctx, 0, []job.LineLimits{{Name: one.key, Weight: one.weight}}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	minted, number := uint64(0), int64(0)
	arrived, whose, waiting := map[job.ID]time.Time{}, map[job.ID]int{}, make([]int, len(tenants))
	next := make([]time.Time, len(tenants)) // when a tenant with a rate submits
	submit := func(of, n int) {
		for n > 0 {
			var batch []job.Submission
			for range min(n, 50) {
				minted++
				id := mintID(time.Now(), minted)
				arrived[id], whose[id] = time.Now(), of
				batch = append(batch, job.Submission{ID: id, Tier: plan.Tier, Type: "X",
					Options: job.Options{Line: tenants[of].key}})
			}
			n -= len(batch)
			if _, err := q.Submit(ctx, 0, batch); err != nil {
				t.Fatal(err)
			}
			waiting[of] += len(batch)
		}
	}
	var now []running
	var f fairness
	got := make([]float64, len(tenants))
	credit := func(one *running, until time.Time) { // the worker time that an attempt had since the warm-up
		if from := latest(one.began, began.Add(warm)); until.After(from) {
			got[one.of] += until.Sub(from).Seconds()
		}
	}
	for time.Since(began) < warm+lasts {
		for of := range tenants {
			switch one := &tenants[of]; {
			case one.rate == 0 && waiting[of] < slots:
				submit(of, 2*slots)
			case one.rate > 0 && !next[of].After(time.Now()):
				submit(of, 1)
				next[of] = latest(next[of], began).Add(time.Duration(r.ExpFloat64() / one.rate * float64(time.Second)))
			}
		}
		for len(now) < slots {
			number++
			reply, err := q.Claim(ctx, 0, job.ClaimRequest{Number: number, Max: slots - len(now), Bound: math.Inf(1)})
			if err != nil {
				t.Fatal(err)
			}
			if len(reply.Leases) == 0 {
				break
			}
			for _, l := range reply.Leases {
				of := whose[l.ID]
				waiting[of]--
				if tenants[of].rate > 0 && time.Since(began) > warm {
					f.waits = append(f.waits, time.Since(arrived[l.ID]))
				}
				long := time.Duration((0.5 + r.Float64()) * float64(tenants[of].mean))
				now = append(now, running{lease: l, of: of, began: time.Now(), ends: time.Now().Add(long)})
			}
		}
		wake := began.Add(warm + lasts)
		for i := range now {
			wake = earliest(wake, now[i].ends)
		}
		for of := range tenants {
			if tenants[of].rate > 0 {
				wake = earliest(wake, next[of])
			}
		}
		<-time.After(time.Until(wake) + time.Millisecond)
		var ended []job.Completion
		now = slices.DeleteFunc(now, func(one running) bool {
			if one.ends.After(time.Now()) {
				return false
			}
			credit(&one, time.Now())
			ended = append(ended, job.Completion{LeaseRef: one.lease.Ref(), Result: []byte(`1`)})
			delete(arrived, one.lease.ID)
			delete(whose, one.lease.ID)
			return true
		})
		if len(ended) > 0 {
			if _, err := q.Complete(ctx, 0, ended); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := 0.0
	for i := range now {
		credit(&now[i], time.Now())
	}
	for _, n := range got {
		all += n
	}
	for _, n := range got {
		f.shares = append(f.shares, n/all)
	}
	slices.Sort(f.waits)
	f.worked = got
	return f
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// mintID makes an id of partition 0.
func mintID(at time.Time, n uint64) job.ID {
	ms := uint64(at.UnixMilli())
	return job.ID(fmt.Sprintf("%08x-%04x-7000-8000-%010x00", ms>>16, ms&0xffff, n))
}

// Worker time is shared by weight, whatever the jobs of the keys take: the table of the design, on the real scripts in
// virtual time. The shares may differ by 3 points; in the short suite, which plays with fewer slots, by 6.
func TestFairness(t *testing.T) {
	t.Parallel()
	long, short := 34*time.Second, time.Second
	eight := []tenant{{key: "long", mean: long}}
	for _, key := range []string{"b", "c", "d", "e", "f", "g", "h"} {
		eight = append(eight, tenant{key: key, mean: short})
	}
	for _, c := range []struct {
		name    string
		slots   int
		lasts   time.Duration
		tenants []tenant
		shares  []float64
	}{
		{"34 s and 1 s", 64, 6 * time.Minute, []tenant{{key: "a", mean: long}, {key: "b", mean: short}}, []float64{0.5, 0.5}},
		{"weights 1 and 3", 64, 10 * time.Minute, []tenant{{key: "a", mean: long}, {key: "b", mean: short, weight: 3}},
			[]float64{0.25, 0.75}},
		{"10 s, 1 s and 0.2 s", 32, time.Minute, []tenant{{key: "a", mean: 10 * time.Second}, {key: "b", mean: short},
			{key: "c", mean: 200 * time.Millisecond}}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{"one of 34 s and seven of 1 s on 4 slots", 4, 12 * time.Minute, eight,
			[]float64{0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := shared(t, max(c.slots/fairPart, 4), 2*time.Minute, c.lasts, c.tenants...)
			t.Logf("shares %.3f", f.shares)
			for i, want := range c.shares {
				if math.Abs(f.shares[i]-want) > fairWithin {
					t.Errorf("%s has %.3f of the worker time, not %.3f", c.tenants[i].key, f.shares[i], want)
				}
			}
		})
	}
}

// A key that submits 20 jobs of 0.1 s per second does not wait for the backlog of jobs of 5 s: 0.05 s at the median and
// 2.2 s at the 99th percentile in the design's table, and at most twice that here.
func TestFairness_Light(t *testing.T) {
	t.Parallel()
	f := shared(t, 64, 30*time.Second, 2*time.Minute, tenant{key: "heavy", mean: 5 * time.Second},
		tenant{key: "light", mean: 100 * time.Millisecond, rate: 20})
	p50, p99 := f.waits[len(f.waits)/2], f.waits[len(f.waits)*99/100]
	t.Logf("%d jobs, p50 %s, p99 %s", len(f.waits), p50, p99)
	if p50 > 100*time.Millisecond || p99 > 4400*time.Millisecond {
		t.Errorf("p50 %s, p99 %s", p50, p99)
	}
}

// Whatever the weights, the keys and how long their jobs run: two keys that always wait have the same worker time per
// weight, within one job each and what is under way.
func TestFairness_Random(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			slots := 2 + r.IntN(6)
			tenants := make([]tenant, 2+r.IntN(4))
			for i := range tenants {
				tenants[i] = tenant{key: string(rune('a' + i)), weight: 1 + r.IntN(5),
					mean: time.Duration(200+r.IntN(4800)) * time.Millisecond}
			}
			f := shared(t, slots, 30*time.Second, 3*time.Minute, tenants...)
			perWeight := func(i int) (worked, bound float64) {
				weight := float64(tenants[i].weight)
				longest := 1.5 * tenants[i].mean.Seconds()
				return f.worked[i] / weight, longest * float64(1+slots) / weight
			}
			for i := range tenants {
				for k := range i {
					a, boundA := perWeight(i)
					b, boundB := perWeight(k)
					if math.Abs(a-b) > boundA+boundB {
						t.Errorf("%d slots, %+v: %s has %.1f s per weight, %s %.1f s; at most %.1f s apart", slots, tenants,
							tenants[i].key, a, tenants[k].key, b, boundA+boundB)
					}
				}
			}
		})
	}
}
