package queue_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// startedBefore moves the start of an attempt in a line so far into the past.
func startedBefore(t *testing.T, e *queuetest.Env, l job.Lease, d time.Duration) {
	t.Helper()
	e.Edit(t, "leases", l.ID, func(text string) string {
		lease, head, _ := strings.Cut(text, "\n")
		words := strings.Fields(lease)
		words[len(words)-5] = fmt.Sprint(e.Now(t) - d.Milliseconds()) // first started due token for charge
		words[len(words)-6] = words[len(words)-5]
		return strings.Join(words, " ") + "\n" + head
	})
}

// lineNow returns the line of a key, and of a tier if it is named.
func lineNow(t *testing.T, e *queuetest.Env, key string, tier job.Tier) job.LineNow {
	t.Helper()
	now, err := e.View.Lines(t.Context(), job.LineFilter{Name: key, Tier: tier, Order: job.ByShare}, 10)
	if err != nil || len(now.Items) != 1 {
		t.Fatalf("lines of %s: %+v, %v", key, now.Items, err)
	}
	return now.Items[0]
}

// A line's share is its part of the worker time that the lines of its tier had in the last minutes: of attempts that
// have ended, and of those that run. Its rate is how many attempts ended since the first of them began.
func TestLines_Spent(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, declare([]string{"films"}), func(t *testing.T, e *queuetest.Env) {
		q := e.Process("spender", job.MainQueue, "films")
		put := func(key string, tier job.Tier, queue string) job.ID {
			s := queuetest.Job(tier)
			s.Line, s.Queue = key, queue
			return e.PutAll(t, s)[0]
		}
		number := int64(0)
		start := func(n int) (leases []job.Lease) {
			number++
			reply, err := q.Claim(t.Context(), 0, job.ClaimRequest{Number: number, Max: n, Bound: math.Inf(1)})
			if err != nil || len(reply.Leases) != n {
				t.Fatalf("%d leases, %v", len(reply.Leases), err)
			}
			return reply.Leases
		}
		of := map[string][]job.Lease{}
		for key, jobs := range map[string]int{"a": 2, "b": 2, "c": 1, "old": 1} {
			for range jobs {
				put(key, job.Public, "")
			}
		}
		put("b", job.Public, "films")
		put("a", job.Paid, "")
		for _, l := range start(8) {
			place := l.Job.Line + " " + string(l.Job.Tier) + " " + l.Job.QueueName()
			of[place] = append(of[place], l)
		}
		waits := put("a", job.Public, "")
		for _, key := range []string{"b", "c", "old"} {
			put(key, job.Public, "")
		}
		put("b", job.Public, "films")
		put("a", job.Paid, "")

		first := &job.Job{ID: waits, Tier: job.Public, Options: job.Options{Line: "a"}}
		if place, err := e.View.LineOf(t.Context(), first); err != nil || place.Rate != 0 {
			t.Errorf("nothing has ended: %+v, %v", place, err)
		}
		began := time.Now()
		for _, l := range of["a PUBLIC main"] {
			startedBefore(t, e, l, 20*time.Second) // 40 s in all
		}
		startedBefore(t, e, of["b PUBLIC main"][0], 30*time.Second)
		startedBefore(t, e, of["b PUBLIC main"][1], 0)
		startedBefore(t, e, of["old PUBLIC main"][0], 0)
		startedBefore(t, e, of["b PUBLIC films"][0], 20*time.Second)
		startedBefore(t, e, of["c PUBLIC main"][0], 10*time.Second) // it runs on
		startedBefore(t, e, of["a PAID main"][0], 7*time.Second)
		for _, l := range append(of["a PUBLIC main"], of["b PUBLIC main"][0], of["b PUBLIC films"][0], of["a PAID main"][0]) {
			e.Finish(t, l)
		}
		// share checks a line's share of the worker time of its tier, both in seconds, of so many attempts; each of them,
		// and seven in all, may have had what the test took.
		share := func(key string, tier job.Tier, least, most, n, all float64) {
			t.Helper()
			got, took := lineNow(t, e, key, tier).Share, time.Since(began).Seconds()+0.1
			if got < least/(all+7*took) || got > (most+n*took)/all {
				t.Errorf("the share of %s in %s is %.3f", key, tier, got)
			}
		}
		share("a", job.Public, 40, 40, 2, 100)
		share("c", job.Public, 10, 10, 1, 100)
		share("a", job.Paid, 7, 7, 0, 7)
		now, err := e.View.Lines(t.Context(), job.LineFilter{Tier: job.Public, Order: job.ByShare}, 2)
		if err != nil || len(now.Items) != 2 || now.Items[0].Share < now.Items[1].Share {
			t.Errorf("%+v, %v", now.Items, err)
		}
		place, err := e.View.LineOf(t.Context(), first)
		if took := time.Since(began).Seconds() + 0.1; err != nil || place.Rate < 2/(20+took) || place.Rate > 2/20.0 {
			t.Errorf("two attempts ended in 20 s and %.1f more: %+v, %v", took, place, err)
		}

		// An attempt of hours counts with its last minutes, while it runs and when it has ended.
		startedBefore(t, e, of["old PUBLIC main"][0], 3*time.Hour)
		share("old", job.Public, 300, 360, 1, 400)
		e.Finish(t, of["old PUBLIC main"][0])
		share("old", job.Public, 300, 360, 1, 400)
		minutes := 0
		for _, key := range e.AllKeys(t, queue.Key(0, "lines")+"spent:*") {
			minutes++
			if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl < time.Minute || ttl > 7*time.Minute {
				t.Errorf("%s has a time to live of %s", key, ttl)
			}
		}
		if minutes < 6 || minutes > 8 {
			t.Errorf("%d minutes are kept", minutes)
		}
	})
}

// An audit pass deletes what is no hash where a minute's worker time or a tier's tags should be, and gives the minutes
// a time to live that have none.
func TestRepair_Spent(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Queues = &job.QueueBook{} },
		func(t *testing.T, e *queuetest.Env) {
			for range 2 {
				s := queuetest.Job(job.Paid)
				s.Line = "a"
				e.PutAll(t, s)
			}
			e.Finish(t, e.Take(t, 1)...)
			lines := queue.Key(0, "lines")
			spent := e.AllKeys(t, lines+"spent:*")
			e.Redis.Persist(t.Context(), spent[len(spent)-1])
			if got := kinds(pass(t, e.Queue, unasked)); got != "REPAIRED ttl" {
				t.Errorf("found %q", got)
			}
			for _, key := range append(spent[len(spent)-1:], lines+"tags:PAID:main") {
				e.Redis.Del(t.Context(), key)
				e.Redis.Set(t.Context(), key, "x", 0)
				if got := kinds(pass(t, e.Queue, unasked)); !strings.Contains(got, "REPAIRED type") {
					t.Errorf("%s: found %q", key, got)
				}
			}
			if got := kinds(pass(t, e.Queue, unasked)); got != "" {
				t.Errorf("found then %q", got)
			}
			e.Finish(t, e.Take(t, 1)...)
		})
}
