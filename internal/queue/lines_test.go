package queue_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// lined is a job with a line, as the test knows it.
type lined struct {
	id    job.ID
	tier  int // its priority
	key   string
	queue string
	nth   int // of the submits
}

// linesModel is what a test knows of a partition with lines: which jobs are ready, in the order of their submits, and
// how many attempts of each key run.
type linesModel struct {
	ready   []lined
	running map[string]int
	limits  map[string]job.LineLimits
	leases  map[job.ID]job.Lease
	of      map[job.ID]lined
}

// room returns how many more attempts of a key may start, math.MaxInt if its limits do not say.
func (m *linesModel) room(key string) int {
	l := m.limits[key]
	switch {
	case l.Paused != nil:
		return 0
	case l.Strict && l.Running == 0:
		return max(1-m.running[key], 0)
	case l.Running > 0 && l.Strict:
		return max(min(l.Running, 1)-m.running[key], 0)
	case l.Running > 0:
		return max(l.Running-m.running[key], 0)
	}
	return math.MaxInt
}

// may returns the jobs that a claim may take, for each tier: of each key at most those that its limits allow, the
// better tiers first.
func (m *linesModel) may(queues []string) map[int]int {
	taken, byTier := map[string]int{}, map[int]int{}
	better := func(a, b lined) int { return cmp.Compare(a.tier, b.tier) }
	for _, j := range slices.SortedStableFunc(slices.Values(m.ready), better) {
		if slices.Contains(queues, j.queue) && taken[j.key] < m.room(j.key) {
			taken[j.key]++
			byTier[j.tier]++
		}
	}
	return byTier
}

// take removes what a claim took. It fails if that breaks a promise: the order in a line, a limit, or the order of the
// tiers.
func (m *linesModel) take(r *rapid.T, leases []job.Lease, most int, queues []string) {
	may, took := m.may(queues), map[int]int{}
	for _, l := range leases {
		j, ok := m.of[l.ID]
		at := slices.IndexFunc(m.ready, func(one lined) bool { return one.id == l.ID })
		if !ok || at < 0 || !slices.Contains(queues, j.queue) {
			r.Fatalf("%s was not to be claimed", l.ID)
		}
		for _, other := range m.ready[:at] {
			if other.tier == j.tier && other.key == j.key && other.queue == j.queue {
				r.Fatalf("%+v was claimed before %+v", j, other)
			}
		}
		if m.room(j.key) == 0 {
			r.Fatalf("%+v: %d attempts of its key run, its limits are %+v", j, m.running[j.key], m.limits[j.key])
		}
		m.ready = slices.Delete(slices.Clone(m.ready), at, at+1)
		m.running[j.key]++
		m.leases[l.ID] = l
		took[j.tier]++
	}
	left := most
	for _, tier := range []int{1, 2, 3} {
		want := min(may[tier], left)
		if left -= want; took[tier] != want {
			r.Fatalf("it took %d jobs of the priority %d, not %d of the %d that may run; at most %d", took[tier], tier, want,
				may[tier], most)
		}
	}
}

// Whatever is submitted, claimed, ended, limited and paused: a claim takes the better tiers first, each line in the
// order of its submits, of no key more than its limits allow, and no line waits for another line's limit.
func TestLines(t *testing.T) {
	t.Parallel()
	queues := []string{job.MainQueue, "films"}
	queuetest.EachWith(t, declare(queues[1:]), func(t *testing.T, e *queuetest.Env) {
		processes := 0
		rapid.Check(t, func(r *rapid.T) {
			e.Empty(t)
			processes++
			q := e.Process(fmt.Sprint("lines", processes), queues...)
			m := &linesModel{running: map[string]int{}, limits: map[string]job.LineLimits{}, leases: map[job.ID]job.Lease{},
				of: map[job.ID]lined{}}
			number := int64(0)
			keys := rapid.SampledFrom([]string{"a", "b", "c", job.NoKey})
			r.Repeat(map[string]func(*rapid.T){
				"submit": func(r *rapid.T) {
					var batch []job.Submission
					for range rapid.IntRange(1, 6).Draw(r, "jobs") {
						tier := rapid.IntRange(1, 3).Draw(r, "tier")
						s := queuetest.Job([]job.Tier{job.Paid, job.Unpaid, job.Public}[tier-1])
						s.Line = keys.Draw(r, "key")
						one := lined{id: s.ID, tier: tier, key: s.Line, queue: job.MainQueue, nth: len(m.of)}
						if rapid.Bool().Draw(r, "films") {
							s.Queue, one.queue = "films", "films"
						}
						batch = append(batch, s)
						m.ready, m.of[s.ID] = append(m.ready, one), one
					}
					e.PutAll(t, batch...)
				},
				"claim": func(r *rapid.T) {
					number++
					most := rapid.IntRange(1, 7).Draw(r, "most")
					reply, err := q.Claim(t.Context(), 0, job.ClaimRequest{Number: number, Max: most, Bound: math.Inf(1)})
					if err != nil {
						r.Fatal(err)
					}
					m.take(r, reply.Leases, most, queues)
				},
				"end": func(r *rapid.T) {
					for id, l := range m.leases {
						if !rapid.Bool().Draw(r, "ends") {
							continue
						}
						delete(m.leases, id)
						m.running[m.of[id].key]--
						m.end(r, t, e, l)
					}
				},
				"cancel": func(r *rapid.T) {
					if len(m.ready) == 0 {
						return
					}
					at := rapid.IntRange(0, len(m.ready)-1).Draw(r, "job")
					if w := e.Cancels(t, m.ready[at].id); w != job.WasCancelled {
						r.Fatal(w)
					}
					m.ready = slices.Delete(m.ready, at, at+1)
				},
				"limit": func(r *rapid.T) {
					l := job.LineLimits{Name: keys.Draw(r, "key"), Running: rapid.IntRange(0, 3).Draw(r, "running"),
						Weight: rapid.IntRange(0, 4).Draw(r, "weight"), Strict: rapid.IntRange(0, 3).Draw(r, "strict") == 0}
					if rapid.IntRange(0, 3).Draw(r, "paused") == 0 {
						l.Paused = &job.LinePause{}
					}
					m.limits[l.Name] = l
					if err := q.SetLimits(t.Context(), 0, []job.LineLimits{l}); err != nil {
						r.Fatal(err)
					}
				},
				"": func(r *rapid.T) {
					if wrong := e.Audit(t); len(wrong) > 0 {
						r.Fatal(wrong)
					}
				},
			})
		})
	})
}

// end ends an attempt: it completes, fails for good, goes back to its line, or dies.
func (m *linesModel) end(r *rapid.T, t *testing.T, e *queuetest.Env, l job.Lease) {
	goesBack := func() {
		m.ready = append(m.ready, m.of[l.ID])
		slices.SortFunc(m.ready, func(a, b lined) int { return cmp.Compare(a.nth, b.nth) })
	}
	switch rapid.IntRange(0, 3).Draw(r, "how") {
	case 0:
		e.Finish(t, l)
	case 1:
		e.Bury(t, l)
	case 2:
		goesBack()
		if _, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}}); err != nil {
			r.Fatal(err)
		}
	case 3:
		if l.RetryCount < l.MaxRetries { // a crash counts as a retry
			goesBack()
		}
		e.Reap(t, job.Crashed, l.ID)
	}
}

// A rate lets so many attempts start, and the others when their time has come; a promotion puts the line back.
func TestLines_Rate(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		limits := job.LineLimits{Name: "a", Rate: 2, Burst: 2}
		if err := e.SetLimits(t.Context(), 0, []job.LineLimits{limits}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			s := queuetest.Job(job.Paid)
			s.Line = "a"
			e.PutAll(t, s)
		}
		e.Take(t, 2)
		if reply, err := e.Claim(t.Context(), 0, e.NextClaim(5)); err != nil || len(reply.Leases) > 0 {
			t.Fatalf("%v, %v", reply.Leases, err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; <-time.After(20 * time.Millisecond) {
			if _, err := e.Promote(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if reply, err := e.Claim(t.Context(), 0, e.NextClaim(5)); err != nil || len(reply.Leases) == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("no attempt starts")
			}
		}
	})
}

// Keys whose rates Redis counted while its clock was an hour ahead start their next attempts within an interval of the
// right time, those that are parked too. Keys that wait for another event, or for longer, wait as before.
func TestLines_RateAfterAClockAhead(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		const keys, hour = 30, float64(time.Hour / time.Millisecond)
		later := time.Now().Add(2 * time.Hour)
		limits := []job.LineLimits{
			{Name: "paused", Paused: &job.LinePause{Until: later}}, {Name: "held", Paused: &job.LinePause{}},
		}
		for i := range keys {
			limits = append(limits, job.LineLimits{Name: fmt.Sprint("k", i), Rate: 2, Burst: 2})
		}
		if err := e.SetLimits(t.Context(), 0, limits); err != nil {
			t.Fatal(err)
		}
		for _, l := range limits {
			for range 3 {
				s := queuetest.Job(job.Paid)
				s.Line = l.Name
				e.PutAll(t, s)
			}
		}
		if leases := e.Take(t, 2*keys); len(leases) != 2*keys { // the bursts
			t.Fatal(len(leases))
		}
		parked, states := queue.Key(0, "lines")+"parked", queue.Key(0, "lines")+"keys"
		scores, err := e.Redis.ZRangeWithScores(t.Context(), parked, 0, -1).Result()
		if err != nil || len(scores) != keys+2 {
			t.Fatal(scores, err)
		}
		for _, z := range scores { // the keys as an hour ago Redis' clock, an hour ahead, has left them
			name := z.Member.(string)
			if name == "paused" || name == "held" {
				continue
			}
			e.Redis.ZIncrBy(t.Context(), parked, hour, name)
			f := strings.SplitN(e.Redis.HGet(t.Context(), states, name).Val(), " ", 3)
			next, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			e.Redis.HSet(t.Context(), states, name, fmt.Sprintf("%s %.3f %s", f[0], next+hour, f[2]))
		}
		started := map[string]bool{}
		testkit.Eventually(t, 10*time.Second, "each key starts an attempt", func() (bool, string) {
			if _, err := e.Promote(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			reply, err := e.Claim(t.Context(), 0, e.NextClaim(keys))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range reply.Leases {
				started[l.Line] = true
			}
			return len(started) >= keys, fmt.Sprint(len(started))
		})
		if started["paused"] || started["held"] || len(started) != keys {
			t.Errorf("started are %v", started)
		}
		if until := e.Redis.ZScore(t.Context(), parked, "paused").Val(); until != float64(later.UnixMilli()) {
			t.Errorf("the paused key is looked at at %f, not at %d", until, later.UnixMilli())
		}
		if wrong := e.Audit(t); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// A list, and what a purge reads, have every ready job once: those in lines too, also of a parked line, whatever pages
// the list is read in.
func TestLines_Listed(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, declare([]string{"films"}), func(t *testing.T, e *queuetest.Env) {
		if err := e.SetLimits(t.Context(), 0, []job.LineLimits{{Name: "parked", Paused: &job.LinePause{}}}); err != nil {
			t.Fatal(err)
		}
		want := map[job.ID]bool{}
		for i := range 250 {
			s := queuetest.Job([]job.Tier{job.Paid, job.Public}[i%2])
			s.Line = []string{"", "a.b", "parked", job.LineOf("ü %2E"), fmt.Sprint("k", i)}[i%5]
			if i%7 == 0 {
				s.Queue = "films"
			}
			want[e.PutAll(t, s)[0]] = true
		}
		for _, limit := range []int{1, 7, 1000} {
			got, cursor := map[job.ID]bool{}, ""
			for page := 0; page == 0 || cursor != ""; page++ {
				items, next, err := e.View.List(t.Context(), job.Filter{}, cursor, limit)
				if err != nil {
					t.Fatalf("%q: %v", cursor, err)
				}
				for _, one := range items {
					if got[one.ID] || one.Status != job.Pending {
						t.Errorf("%s twice, or not pending: %s", one.ID, one.Status)
					}
					got[one.ID] = true
				}
				cursor = next
			}
			if !maps.Equal(got, want) {
				t.Errorf("pages of %d: %d of %d jobs", limit, len(got), len(want))
			}
		}
		films, err := e.View.ReadyIn(t.Context(), "films", 1000)
		main, err2 := e.View.ReadyIn(t.Context(), job.MainQueue, 1000)
		both := map[job.ID]bool{}
		for _, id := range append(films, main...) {
			both[id] = true
		}
		if err != nil || err2 != nil || len(films) != 36 || !maps.Equal(both, want) {
			t.Errorf("%d and %d jobs, %v, %v", len(films), len(main), err, err2)
		}
	})
}

// A job that has no line in SQL, such as a callback, comes back in a line if its tier has lines: beside lines it would
// wait by its arrival, which does not compare with their tags.
func TestLines_Restored(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		plans := job.DefaultPlans()
		plans[0].Lines, plans[1].Lines = job.LinesKey, job.LinesOwner
		e.Plans.Set(plans)
		rows := []job.JournalRow{living(queuetest.NewID(0)), living(queuetest.NewID(0)), living(queuetest.NewID(0)),
			living(queuetest.NewID(0))}
		rows[0].Tier, rows[1].Tier, rows[2].Tier, rows[3].Tier = job.Paid, job.Unpaid, job.Public, job.Paid
		rows[1].Owner, rows[3].Line = "k1", "a"
		if words, err := e.Restore(t.Context(), 0, rows, time.Now()); err != nil || slices.Contains(words, job.Busy) {
			t.Fatal(words, err)
		}
		for i, want := range []string{job.NoKey, "@k1", "", "a"} {
			if j, err := e.View.Find(t.Context(), rows[i].ID); err != nil || j.Line != want {
				t.Errorf("%s is in the line %q, not %q: %v", j.Tier, j.Line, want, err)
			}
		}
	})
}
