package queue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// pass runs one audit pass over a queue and returns the findings. sql returns what SQL has recorded of a job.
func pass(t testing.TB, q *queue.Queue, sql func(job.ID) []job.Recorded) (found []job.Finding) {
	t.Helper()
	add := func(some []job.Finding, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, some...)
		for _, f := range some {
			if !slices.Contains(job.FindingKinds[f.Result], f.Kind) {
				t.Errorf("%v is of no known kind", f)
			}
		}
	}
	for p := range q.Partitions() {
		add(q.Recount(t.Context(), p, false))
	}
	for at, more := "", true; more; more = at != "" {
		s, err := q.Scan(t.Context(), at)
		add(s.Found, err)
		for _, id := range s.Ask {
			if r := sql(id); r != nil {
				i := slices.IndexFunc(s.Suspects, func(one job.Suspected) bool { return one.ID == id })
				if i < 0 {
					i = len(s.Suspects)
					s.Suspects = append(s.Suspects, job.Suspected{ID: id, Partition: id.Partition()})
				}
				s.Suspects[i].Recorded = r
			}
		}
		add(q.AuditJobs(t.Context(), s.Suspects))
		at = s.Next
	}
	for p := range q.Partitions() {
		add(q.Recount(t.Context(), p, true))
	}
	return found
}

// unasked is a SQL without records.
func unasked(job.ID) []job.Recorded { return nil }

// kinds returns the findings without their jobs, sorted.
func kinds(found []job.Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, string(f.Result)+" "+f.Kind)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// backToTheQueue has the findings about a running job whose lease cannot be read.
const backToTheQueue = "REPAIRED counter, REPAIRED counter, REPAIRED counter, REPAIRED counter, REPAIRED lease, " +
	"REPAIRED misplaced, REPAIRED misplaced, REPAIRED missing"

// repairs has the findings of a pass after each edit in corruptions.
var repairs = map[string]string{
	"in two sets":                      "REPAIRED misplaced",
	"running and waiting":              "REPAIRED misplaced",
	"in no set":                        "REPAIRED missing",
	"missing from run_deadlines":       "REPAIRED missing",
	"missing from heartbeat_deadlines": "REPAIRED missing",
	"ended, not in the outbox":         "REPAIRED missing",
	"acknowledged, in the outbox":      "REPAIRED counter, REPAIRED unacked",
	"wrong score":                      "REPAIRED score",
	"quarantined":                      "REPAIRED misplaced",
	"counter off by one":               "REPAIRED counter",
	"tier's counter off by one":        "REPAIRED counter",
	"counter of nothing":               "REPAIRED counter",
	"an owner of too many":             "REPAIRED counter",
	"an owner of nothing":              "REPAIRED counter",
	"an owner at nought":               "REPAIRED counter",
	"an owner below nought":            "REPAIRED counter",
	"an owner of words":                "REPAIRED counter",
	"an owner forgotten":               "REPAIRED counter",
	"outbox bytes":                     "REPAIRED counter",
	"bytes of the living":              "REPAIRED counter",
	"a tier's bytes of the delayed":    "REPAIRED counter",
	"no record": "QUARANTINED no_job, REPAIRED counter, REPAIRED counter, " +
		"REPAIRED counter, REPAIRED counter, REPAIRED counter",
	"a time to live on the living":     "REPAIRED ttl",
	"a time to live on what SQL lacks": "REPAIRED ttl",
	"none on the acknowledged":         "REPAIRED ttl",
	"a slice of another type":          "REPAIRED type",
	"a slice unacked too often":        "REPAIRED unacked",
	"a slice that nothing counts":      "REPAIRED ttl, REPAIRED ttl, REPAIRED unacked, REPAIRED unacked",
	"payload dropped early":            "REPORTED payload_lost",
	"payload kept for ever":            "REPAIRED payload",
	"no head": "QUARANTINED head, REPAIRED counter, REPAIRED counter, " +
		"REPAIRED counter, REPAIRED counter, REPAIRED counter",
	"half a head": "QUARANTINED head, REPAIRED counter, REPAIRED counter, " +
		"REPAIRED counter, REPAIRED counter, REPAIRED counter",
	"half a lease":             backToTheQueue,
	"a lease of another class": "REPAIRED lease",
	"too many retries":         "REPAIRED retries",
	"a lease of a waiting job": "REPAIRED counter, REPAIRED counter, REPAIRED counter, REPAIRED counter, " +
		"REPAIRED lease, REPAIRED misplaced, REPAIRED missing, REPAIRED missing",
	"attempts of an ended job":                "REPAIRED leftover",
	"a checkpoint of an ended job":            "REPAIRED leftover",
	"a checkpoint that is uncounted":          "REPAIRED counter, REPAIRED counter",
	"ended before it started":                 "REPAIRED times",
	"another attempt in the outbox":           "REPAIRED misplaced",
	"history left":                            "REPAIRED history",
	"history of nobody":                       "REPAIRED history",
	"a history of another type":               "REPAIRED history",
	"a running job's history of another type": "REPAIRED history",
	"two tokens":                              "REPAIRED doorbell",
	"a key nobody knows":                      "REPORTED unknown_key",
	"a key of another type":                   "REPAIRED type",
	"a claim kept for ever":                   "REPAIRED ttl",
	"a time to live on a whole set":           "REPAIRED ttl",
}

// Each edit by hand is repaired or set aside, and reported once: a second pass finds nothing, except what only a
// person can remove.
func TestAuditRepairsCorruption(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	for name, c := range corruptions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
				l := everyState(t, e)
				if found := pass(t, e.Queue, unasked); found != nil {
					t.Fatalf("before anything was broken: %v", found)
				}
				c.broken(t.Context(), e.Redis, l)
				e.Broken(t, c.says)
				want := repairs[name]
				if got := kinds(pass(t, e.Queue, unasked)); got != want {
					t.Errorf("found %q, want %q", got, want)
				}
				again := pass(t, e.Queue, unasked)
				if strings.Contains(want, "unknown_key") {
					if kinds(again) != want {
						t.Errorf("a second pass found %v", again)
					}
					return
				}
				if again != nil {
					t.Errorf("a second pass found %v", again)
				}
				for _, wrong := range e.Audit(t) {
					if !aside(want, wrong, l) {
						t.Error("afterwards: " + wrong)
					}
				}
			})
		})
	}
}

// aside says whether a line of the audit is about a job that was set aside. In the audit's counts a job without a
// valid state counts as ended.
func aside(want, line string, l lives) bool {
	if !strings.Contains(want, "QUARANTINED") {
		return false
	}
	return strings.Contains(line, "quarantine") || strings.Contains(line, string(l.waiting)) ||
		strings.Contains(line, string(l.running)) ||
		strings.HasPrefix(want, "QUARANTINED state") && strings.Contains(line, "outbox_bytes")
}

// idle makes a claim that must get no leases.
func idle(t *testing.T, e *queuetest.Env) {
	t.Helper()
	if reply, err := e.Claim(t.Context(), 0, e.NextClaim(5)); err != nil || len(reply.Leases) > 0 {
		t.Errorf("claimed %v, %v", reply.Leases, err)
	}
}

// The audit also repairs edits that corruptions cannot have: edits of several things at once, and those that would
// stop all workers.
func TestAuditRepairsMore(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		ctx, key := t.Context(), func(name string) string { return queue.Key(0, name) }
		sets := []string{"queue", "scheduled", "heartbeat_deadlines", "run_deadlines", "outbox"}
		hurt := func(what, want string, edit func(l lives), after func(l lives)) {
			t.Helper()
			e.Flush(t)
			if err := e.LoadPlans(ctx); err != nil {
				t.Fatal(err)
			}
			l := everyState(t, e)
			edit(l)
			if got := kinds(pass(t, e.Queue, unasked)); got != want {
				t.Errorf("%s: found %q, want %q", what, got, want)
			}
			after(l)
			if again := pass(t, e.Queue, unasked); again != nil {
				t.Errorf("%s: a second pass found %v", what, again)
			}
		}
		clean := func(lives) {
			t.Helper()
			for _, wrong := range e.Audit(t) {
				t.Error("afterwards: " + wrong)
			}
		}
		hurt("the whole queue is a text", "REPAIRED missing, REPAIRED type",
			func(lives) { e.Redis.Set(ctx, key("queue"), "x", 0) }, clean)
		// The delayed job is ready then, and counted anew.
		each := strings.Repeat("REPAIRED counter, ", 9)
		hurt("every set is gone", each+"REPAIRED history, "+strings.Repeat("REPAIRED missing, ", 6)+"REPAIRED unacked",
			func(lives) {
				for _, set := range sets {
					e.Redis.Del(ctx, key(set))
				}
			}, clean)
		hurt("everybody is everywhere", each+strings.Repeat("REPAIRED misplaced, ", 19)+"REPAIRED score, "+
			"REPAIRED unacked", func(l lives) {
			for _, set := range sets {
				for _, id := range []job.ID{l.waiting, l.delayed, l.running, l.done, l.acknowledged} {
					e.Redis.ZAddNX(ctx, key(set), redis.Z{Score: 1, Member: string(id)})
				}
			}
		}, clean)
		each = strings.TrimSuffix(strings.Repeat("REPAIRED counter, ", 14), ", ")
		hurt("the counters are gone", each, func(lives) { e.Redis.Del(ctx, key("counters")) }, clean)
		hurt("the owners are a text", "REPAIRED counter, REPAIRED type",
			func(lives) { e.Redis.Set(ctx, key("owners"), "x", 0) }, clean)
		hurt("a counter is a word", "REPAIRED counter, REPAIRED counter",
			func(lives) { e.Redis.HSet(ctx, key("counters"), "fresh", "many") }, clean)
		hurt("a record is a hash", "QUARANTINED type, REPAIRED counter, REPAIRED counter, "+
			"REPAIRED counter, REPAIRED counter, REPAIRED counter", func(l lives) {
			e.Redis.Del(ctx, queue.JobKey(l.waiting))
			e.Redis.HSet(ctx, queue.JobKey(l.waiting), "x", "y")
		}, func(lives) { idle(t, e) })
		hurt("a torn record", "QUARANTINED head, REPAIRED counter, REPAIRED counter, "+
			"REPAIRED counter, REPAIRED counter, REPAIRED counter", func(l lives) {
			e.Redis.Set(ctx, queue.JobKey(l.waiting), "PAID main 1", 0)
		}, func(lives) { idle(t, e) })
		hurt("a lease without anything", backToTheQueue, func(l lives) {
			e.Redis.HSet(ctx, key("leases"), string(l.running), "x")
		}, func(l lives) {
			clean(l)
			same(t, "the job waits", e.Snapshot(t).State(l.running), job.Pending)
		})
		hurt("a due job in no set", strings.Repeat("REPAIRED counter, ", 8)+"REPAIRED missing",
			func(l lives) { e.Redis.ZRem(ctx, key("scheduled"), string(l.delayed)) }, clean)
	})
}

// A job that a claim, a watch or the promoter quarantined because of a wrong entry goes back to its place in the
// next audit.
func TestAuditReturnsFromQuarantine(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Redis.ZAdd(t.Context(), queue.Key(0, "queue"), redis.Z{Score: 1, Member: string(l.ID)})
		idle(t, e) // the claim meets a running job in the queue
		e.Broken(t, "1 in quarantine")
		if got := kinds(pass(t, e.Queue, unasked)); got != "REPAIRED misplaced" {
			t.Errorf("found %q", got)
		}
		e.Finish(t, l)
		e.Drain(t)
		if wrong := e.Audit(t); wrong != nil {
			t.Errorf("afterwards: %q", wrong)
		}
	})
}

// A running job whose entries were lost loses nothing if its holder lives, and one retry if its holder is dead.
func TestAuditGivesRunningJobsToTheWatch(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		alive, dead := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Redis.Del(t.Context(), queue.Key(0, "heartbeat_deadlines"), queue.Key(0, "run_deadlines"))
		if got := kinds(pass(t, e.Queue,
			unasked)); got != "REPAIRED missing, REPAIRED missing, REPAIRED missing, REPAIRED missing" {
			t.Errorf("found %q", got)
		}
		same(t, "stuck at once", len(e.Look(t, job.Stuck)), 0)
		same(t, "the first look", e.Look(t, job.Crashed)[dead.ID], job.Suspect)
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(alive, time.Minute)})
		words(t, got, err, job.OK)
		e.Age(t, "suspects:crashed", queue.Patience)
		e.Age(t, "heartbeat_deadlines", queue.Patience, dead.ID)
		found := e.Look(t, job.Crashed)
		if found[dead.ID] != job.OK || found[alive.ID] != "" {
			t.Errorf("the second look: %v", found)
		}
		e.Finish(t, alive)
	})
}
