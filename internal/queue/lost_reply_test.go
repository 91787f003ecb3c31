package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

// lostReply is a sequence of steps that ends in one call. The test runs it twice, once with the call's reply lost
// and the call sent again. Both must leave the same data, and the second reply must be the lost one (or what again
// makes of it).
type lostReply struct {
	script string
	set    func(t *testing.T, e *queuetest.Env, s *story)                              // the steps before the call
	call   func(ctx context.Context, q *queue.Queue, s *story) (answer any, err error) // always with the same arguments
	// turns the first reply into that of a repeat; nil if they are equal
	again func(first string) string
	after func(t *testing.T, e *queuetest.Env, ids []job.ID) // further checks
}

// story has what the calls of a sequence need.
type story struct {
	ids    []job.ID // the ids of both runs
	leases []job.Lease
	job    job.Job
}

func TestReplyLost(t *testing.T) {
	t.Attr("proves", "F27 S4-P3")
	t.Parallel()
	for name, c := range lostReplies() {
		t.Run("redis/"+name, func(t *testing.T) {
			t.Parallel()
			ids := []job.ID{queuetest.NewID(0), queuetest.NewID(0), queuetest.NewID(0), queuetest.NewID(0)}
			want, wantShape := tell(t, c, ids, false)
			got, gotShape := tell(t, c, ids, true)
			if c.again != nil {
				want = c.again(want)
			}
			if got != want {
				t.Errorf("asked again it answers %s, not %s", got, want)
			}
			for _, d := range queuetest.Diff(wantShape, gotShape) {
				t.Error("not as without the fault: " + d)
			}
		})
	}
}

// tell runs the steps in a database of their own. It returns the last reply and the data left behind, both without
// times.
func tell(t *testing.T, c lostReply, ids []job.ID, lose bool) (answer string, shape []string) {
	t.Helper()
	target, err := url.Parse(testkit.SharedRedisDB(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewProxy(t, target.Host)
	target.Host = proxy.Addr()
	clients, err := queue.Connect(target.String())
	if err != nil {
		t.Fatal(err)
	}
	e := queuetest.Open(t, clients, func(o *queue.Options) { o.Nonce = "teller" })
	s := &story{ids: ids}
	c.set(t, e, s)
	if lose {
		proxy.DropReply(testkit.IsScript(lua.Script(c.script)))
		if _, err := c.call(t.Context(), e.Queue, s); !errors.Is(err, job.ErrAmbiguous) {
			t.Fatalf("the answer was lost, the error is %v", err)
		}
		dropped := proxy.Dropped()
		if len(dropped) != 1 || !dropped[0].Executed || strings.HasPrefix(dropped[0].Line(), "-") {
			t.Fatalf("the fault did not land: %+v", dropped)
		}
		t.Logf("evidence: %s of %s executed, its reply (%d bytes, %q ...) dropped", dropped[0].Args[0], dropped[0].Args[1],
			len(dropped[0].Reply), dropped[0].Line())
	}
	reply, err := c.call(t.Context(), e.Queue, s)
	if err != nil {
		t.Fatal(err)
	}
	shape = e.Snapshot(t).Shape()
	if c.after != nil {
		c.after(t, e, ids)
	}
	return timeless(fmt.Sprintf("%+v", reply)), shape
}

// timeless removes from a reply the parts that differ between runs.
func timeless(text string) string {
	return printedTime.ReplaceAllString(printedScore.ReplaceAllString(text, "T"), "T")
}

var (
	printedTime  = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]* \+0000 UTC`)
	printedScore = regexp.MustCompile(`\d\.\d+e\+13`)
)

func lostReplies() map[string]lostReply {
	put := func(t *testing.T, e *queuetest.Env, s *story, n int) {
		t.Helper()
		for _, id := range s.ids[:n] {
			sub := queuetest.Job(job.Paid)
			sub.ID, sub.TraceID = id, "trace"
			e.PutAll(t, sub)
		}
	}
	running := func(t *testing.T, e *queuetest.Env, s *story) {
		put(t, e, s, 3)
		s.leases = e.Take(t, 2) // the third job is the bystander
	}
	expired := func(w job.Watch) func(*testing.T, *queuetest.Env, *story) {
		return func(t *testing.T, e *queuetest.Env, s *story) {
			running(t, e, s)
			e.Expire(t, w, s.ids[0])
			e.Look(t, w)
			e.Age(t, "suspects:"+string(w), queue.Patience)
		}
	}
	look := func(w job.Watch) func(context.Context, *queue.Queue, *story) (any, error) {
		return func(ctx context.Context, q *queue.Queue, _ *story) (any, error) { return q.Reclaim(ctx, 0, w, 0) }
	}
	write := func(verb string) func(context.Context, *queue.Queue, *story) (any, error) {
		return func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
			return writes[verb](ctx, q, s.leases[0].Ref(), s.leases[1].Ref())
		}
	}
	nothing := func(string) string { return "[]" }
	return map[string]lostReply{
		"submit": {script: "submit", set: func(*testing.T, *queuetest.Env, *story) {},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.Submit(ctx, 0, []job.Submission{{ID: s.ids[0], Tier: job.Paid, Type: "X"},
					{ID: s.ids[1], Tier: job.Public, Type: "X", Delay: time.Hour}})
			},
			again: func(first string) string { return strings.ReplaceAll(first, "Word:OK", "Word:DUPLICATE") }},
		"claim": {script: "claim", set: func(t *testing.T, e *queuetest.Env, s *story) { put(t, e, s, 3) },
			call: func(ctx context.Context, q *queue.Queue, _ *story) (any, error) {
				return q.Claim(ctx, 0, job.ClaimRequest{Number: 7, Max: 2, Bound: math.Inf(1)})
			}},
		"heartbeat": {script: "heartbeat", set: running, call: write("heartbeat")},
		"log": {script: "log", set: running, call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
			return q.Log(ctx, 0, logged(s.leases[0], 1, 3, 2))
		}},
		"complete":      {script: "complete", set: running, call: write("complete")},
		"fail":          {script: "fail", set: running, call: write("fail")},
		"release":       {script: "fail", set: running, call: write("release")},
		"release_later": {script: "fail", set: running, call: write("later")},
		"unknown":       {script: "fail", set: running, call: write("unknown")},
		"reclaim":       {script: "reclaim", set: expired(job.Crashed), call: look(job.Crashed), again: nothing},
		"reclaim_stuck": {script: "reclaim", set: expired(job.Stuck), call: look(job.Stuck), again: nothing},
		"promote": {script: "promote",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: s.leases[0].Ref(), Delay: time.Second}})
				ends(t, got, err, job.OK)
				e.Age(t, "scheduled", time.Minute)
			},
			call:  func(ctx context.Context, q *queue.Queue, _ *story) (any, error) { return q.Promote(ctx, 0) },
			again: func(string) string { return "0" }},
		"expire": {script: "expire",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				late := expiring(t, e, job.Paid, -time.Second)
				late.ID, late.TraceID = s.ids[3], "trace"
				e.PutAll(t, late)
			},
			call:  func(ctx context.Context, q *queue.Queue, _ *story) (any, error) { return q.Expire(ctx, 0) },
			again: func(string) string { return "0" }},
		"cancel": {script: "cancel", set: running,
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.Cancel(ctx, 0, []job.Cancellation{{ID: s.ids[0], Generation: 1}, {ID: s.ids[2], Generation: 1}})
			}},
		"kill": {script: "kill", set: running,
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.Kill(ctx, 0, []job.Killing{{ID: s.ids[0], Generation: 1}, {ID: s.ids[2], Generation: 1}})
			}},
		"hasten": {script: "hasten",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: s.leases[0].Ref(), Delay: time.Minute}})
				ends(t, got, err, job.OK)
			},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.Hasten(ctx, 0, []job.ID{s.ids[0], s.ids[1]})
			}},
		"requeue": {script: "restore",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				e.Bury(t, s.leases[0])
				s.job = e.Drain(t)[0].Job
				s.job.Generation = 2
			},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return queuetest.Requeue(ctx, q, 0, []job.Job{s.job})
			},
			again: func(string) string { return "[DUPLICATE]" }},
		"restore": {script: "restore", set: func(*testing.T, *queuetest.Env, *story) {},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				rows := []job.JournalRow{living(s.ids[0]), living(s.ids[1], ran), living(s.ids[2], due)}
				return q.Restore(ctx, 0, rows, time.Now())
			},
			again: func(string) string { return "[DUPLICATE DUPLICATE DUPLICATE]" }},
		"take_outbox": {script: "take_outbox",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				e.Bury(t, s.leases[0])
			},
			call:  func(ctx context.Context, q *queue.Queue, _ *story) (any, error) { return q.TakeOutbox(ctx, 0, 10) },
			again: nothing, // the taker whose reply was lost has them for OutboxLead; none is lost
			after: func(t *testing.T, e *queuetest.Env, ids []job.ID) {
				e.Age(t, "outbox", queue.OutboxLead)
				same(t, "after the lease", take(t, e.Queue, 10)[0].ID, ids[0])
			}},
		"acknowledge": {script: "acknowledge",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				e.Finish(t, s.leases[0])
			},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.Acknowledge(ctx, 0, []job.Ack{ack(s.leases[0], job.Completed)})
			},
			again: func(string) string { return "[EMPTY]" }},
		"forget": {script: "forget",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				e.Finish(t, s.leases[0])
				e.Drain(t)
				e.AgeEnd(t, time.Hour, s.ids[0])
			},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				gone, _, err := q.Forget(ctx, 0, []string{queuetest.SliceOf(string(s.ids[0]))}, math.MaxInt64)
				return gone, err
			},
			again: func(string) string { return "0" }},
		"audit": {script: "audit",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				e.Redis.ZRem(t.Context(), queue.Key(0, "queue"), string(s.ids[2]))
			},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.AuditJobs(ctx, []job.Suspected{{ID: s.ids[0]}, {ID: s.ids[2]}})
			},
			again: nothing},
		"reserve": {script: "reserve",
			set: func(t *testing.T, e *queuetest.Env, s *story) { running(t, e, s) },
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return q.Reserve(ctx, 0, places(s.ids[2:]), false)
			},
			again: func(first string) string { return strings.Replace(first, "Word:OK", "Word:DUPLICATE", 1) }},
		"unreserve": {script: "unreserve",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				if _, err := e.Reserve(t.Context(), 0, places(s.ids), false); err != nil {
					t.Fatal(err)
				}
			},
			call: func(ctx context.Context, q *queue.Queue, s *story) (any, error) {
				return nil, q.Unreserve(ctx, 0, []job.Reserved{{ID: s.ids[0]}, {ID: s.ids[1], Needed: true}})
			}},
		"recount": {script: "recount",
			set: func(t *testing.T, e *queuetest.Env, s *story) {
				running(t, e, s)
				e.Redis.HIncrBy(t.Context(), queue.Key(0, "counters"), "fresh", 1)
			},
			call:  func(ctx context.Context, q *queue.Queue, _ *story) (any, error) { return q.Recount(ctx, 0, true) },
			again: nothing},
	}
}

// places returns reservations of PAID jobs of one owner.
func places(ids []job.ID) (all []job.Reservation) {
	for _, id := range ids {
		all = append(all, job.Reservation{ID: id, Tier: job.Paid, Owner: "ann", Generation: 1, Bytes: 10})
	}
	return all
}

// neverResent has the scripts whose calls are never sent a second time, and the reasons.
var neverResent = map[string]string{
	"rate": "would count a request twice: without its answer the process counts for itself",

	"limit_keys": "every minute sends the limits again that Redis does not have",
}

func TestReplyLostCoversEveryScript(t *testing.T) {
	t.Attr("proves", "F27")
	t.Parallel()
	covered := map[string]bool{}
	for _, c := range lostReplies() {
		covered[c.script] = true
	}
	for _, name := range lua.Names {
		if covered[name] == (neverResent[name] != "") {
			t.Errorf("%s: tell its story in lostReplies, or in neverResent why there is none; not both", name)
		}
	}
	if len(lua.Names) < 15 {
		t.Errorf("only the scripts %q", lua.Names)
	}
}
