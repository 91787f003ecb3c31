package queue_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// elsewhere claims up to most jobs of some queues for a worker elsewhere.
func elsewhere(t *testing.T, e *queuetest.Env, id, delivery string, most int, queues ...string) []job.Lease {
	t.Helper()
	return repeated(t, e, id, 0, delivery, most, queues...)
}

// repeated is elsewhere for a claim that its worker had sent some times before.
func repeated(t *testing.T, e *queuetest.Env, id string, repeat int, delivery string, most int,
	queues ...string) []job.Lease {
	t.Helper()
	reply, err := e.Claim(t.Context(), 0, job.ClaimRequest{Max: most, Bound: math.Inf(1), Elsewhere: &job.Elsewhere{
		Worker: "key.w", ID: id, Repeat: repeat, Delivery: delivery, Queues: queues, Lease: 20 * time.Second, Low: math.Inf(-1),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Leases
}

// A claim that a worker elsewhere repeats gets its jobs again, under new tokens: reports with the earlier ones are
// lost, so that a process which releases the first answer's jobs takes none from the worker.
func TestClaimByID(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, declare([]string{"films"}), func(t *testing.T, e *queuetest.Env) {
		var all []job.Submission
		for range 3 {
			s := queuetest.Job(job.Paid)
			s.Queue = "films"
			all = append(all, s)
		}
		ids := e.PutAll(t, all...)
		if got := elsewhere(t, e, "a", "0", 5, "main"); len(got) != 0 {
			t.Fatalf("main has %+v", got)
		}
		first := elsewhere(t, e, "a", "1", 2, "main", "films")
		if len(first) != 2 || first[0].ID != ids[0] || first[0].Token != "key.w:a.0-1" || first[0].Worker != "key.w" {
			t.Fatalf("first %+v", first)
		}
		if twice := elsewhere(t, e, "a", "1", 2, "main", "films"); fmt.Sprint(twice) != fmt.Sprint(first) {
			t.Errorf("the same call again %+v", twice)
		}
		before := e.Now(t)
		again := elsewhere(t, e, "a", "2", 2, "main", "films")
		if len(again) != 2 || again[0].ID != ids[0] || again[0].Attempt != 1 || again[0].Token != "key.w:a.0-2" {
			t.Fatalf("again %+v", again)
		}
		deadline := int64(e.Redis.ZScore(t.Context(), queue.Key(0, "heartbeat_deadlines"), string(ids[0])).Val())
		if d := deadline - before; d < 20_000 || d > 25_000 {
			t.Errorf("the lease lives %d ms", d)
		}
		if late := elsewhere(t, e, "a", "1", 2, "main", "films"); len(late) != 0 {
			t.Errorf("a late copy of the first call got %+v", late)
		}
		lost := func(what string, l job.Lease, want job.Word) {
			t.Helper()
			got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}})
			if err != nil || got[0].Word != want {
				t.Errorf("%s: %v, %v", what, got, err)
			}
		}
		lost("a release of the first answer", first[0], job.Lost)
		e.Finish(t, again[0])
		if third := elsewhere(t, e, "a", "3", 2, "main", "films"); len(third) != 1 || third[0].ID != ids[1] {
			t.Errorf("a repeat after one has ended: %+v", third)
		}
		if other := elsewhere(t, e, "b", "1", 2, "films"); len(other) != 1 || other[0].ID != ids[2] {
			t.Errorf("another claim: %+v", other)
		}
		lost("a release of the second answer", again[1], job.Lost)
		if names := e.Redis.Keys(t.Context(), "{tierq:0}:claims:*").Val(); len(names) != 2 {
			t.Errorf("claims are kept under %v", names)
		}
	})
}

// A process that stood still may execute a worker's claim after another process has answered the worker's repeat. The
// leases of the repeat stay the worker's.
func TestClaimByID_Overtaken(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, declare([]string{"films"}), func(t *testing.T, e *queuetest.Env) {
		s := queuetest.Job(job.Paid)
		s.Queue = "films"
		other := queuetest.Job(job.Paid)
		other.Queue = "films"
		ids := e.PutAll(t, s, other)
		got := repeated(t, e, "a", 10, "x", 1, "films")
		if len(got) != 1 || got[0].ID != ids[0] {
			t.Fatalf("the tenth repeat got %+v", got)
		}
		for _, repeat := range []int{0, 9} {
			if late := repeated(t, e, "a", repeat, "y", 1, "films"); len(late) > 0 {
				t.Errorf("repeat %d, overtaken, got %+v", repeat, late)
			}
		}
		e.Finish(t, got[0])
		if next := repeated(t, e, "b", 0, "x", 1, "films"); len(next) != 1 || next[0].ID != ids[1] {
			t.Errorf("the next claim got %+v", next)
		}
	})
}

// A claim from a worst tier on takes no job of a better one, and leaves those where they are.
func TestClaimByID_Tiers(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, declare([]string{"films"}), func(t *testing.T, e *queuetest.Env) {
		paid := e.Put(t, job.Paid)
		films := queuetest.Job(job.Unpaid)
		films.Queue = "films"
		e.PutAll(t, films)
		public := e.Put(t, job.Public)
		claims := 0
		claim := func(from, to int, want ...job.ID) {
			t.Helper()
			claims++
			reply, err := e.Claim(t.Context(), 0, job.ClaimRequest{
				Max: 5, Bound: float64(int64(to+1)*e.Options.PriorityBase - 1), Elsewhere: &job.Elsewhere{
					Worker: "w", ID: fmt.Sprint("c", claims), Delivery: "1", Lease: time.Minute,
					Queues: []string{"main", "films"},
					Low:    float64(int64(from) * e.Options.PriorityBase),
				},
			})
			var got []job.ID
			for _, l := range reply.Leases {
				got = append(got, l.ID)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("tiers %d to %d: %v, %v; want %v", from, to, got, err, want)
			}
		}
		claim(2, 2, films.ID)
		claim(2, 3, public)
		claim(2, 3)
		claim(1, 3, paid)
	})
}

// A job's own maximum time stands in its class: for the claim, for the audit, and for readers.
func TestMaxRun(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		s := queuetest.Job(job.Public)
		s.MaxRunMs = 3_600_000
		e.PutAll(t, s)
		l := e.Take(t, 1)[0]
		if l.MaxRunMs != s.MaxRunMs {
			t.Errorf("the lease says %d ms", l.MaxRunMs)
		}
		deadlines := queue.Key(0, "run_deadlines")
		want := float64(l.StartedAt.UnixMilli() + s.MaxRunMs)
		if got := e.Redis.ZScore(t.Context(), deadlines, string(s.ID)).Val(); got != want {
			t.Errorf("its deadline is %.0f, want %.0f", got, want)
		}
		e.Redis.ZRem(t.Context(), deadlines, string(s.ID))
		if found, err := e.AuditJobs(t.Context(), []job.Suspected{{ID: s.ID}}); err != nil || len(found) != 1 {
			t.Errorf("the audit found %+v, %v", found, err)
		}
		if got := e.Redis.ZScore(t.Context(), deadlines, string(s.ID)).Val(); got != want {
			t.Errorf("the audit made it %.0f, want %.0f", got, want)
		}
		if j, err := e.View.Find(t.Context(), s.ID); err != nil || j.MaxRunMs != s.MaxRunMs {
			t.Errorf("found %d ms, %v", j.MaxRunMs, err)
		}
	})
}

// Only the owner's key opens a sealed lease, in any process of the cluster.
func TestSealedLeases(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		sealed, err := e.View.Seal(t.Context(), "a lease", "ann")
		if err != nil {
			t.Fatal(err)
		}
		other := e.Process("other").View()
		if got, err := other.Open(t.Context(), sealed, "ann"); got != "a lease" || err != nil {
			t.Errorf("another process reads %q, %v", got, err)
		}
		flip := func(at int) string {
			c := sealed[at]
			if c == 'A' {
				c = 'B'
			} else {
				c = 'A'
			}
			return sealed[:at] + string(c) + sealed[at+1:]
		}
		for text, want := range map[string]error{
			sealed[3:]: job.ErrBadLease, "": job.ErrBadLease, "v1.": job.ErrLeaseLost, "v1.?": job.ErrBadLease,
			"v2." + sealed[3:]: job.ErrBadLease, flip(5): job.ErrLeaseLost, flip(len(sealed) - 5): job.ErrLeaseLost,
			sealed[:19]: job.ErrLeaseLost,
		} {
			if got, err := other.Open(t.Context(), text, "ann"); !errors.Is(err, want) || got != "" {
				t.Errorf("%s: %q, %v; want %v", strings.ReplaceAll(text, sealed, "<sealed>"), got, err, want)
			}
		}
		if _, err := other.Open(t.Context(), sealed, "bob"); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("another key: %v", err)
		}
	})
}

// elsewhereMutations are faults that only claims by id show.
var elsewhereMutations = []mutation{
	{
		"a repeat keeps its tokens", "claim",
		"is_repeat, token = latest ~= nil, nonce .. ':' .. claim_id .. '.' .. delivery",
		"is_repeat, token = latest ~= nil, nonce .. ':' .. claim_id .. '.' .. (latest or delivery)", false,
	},
	{"an earlier delivery claims", "claim", "was_answered and latest ~= delivery or", "", false},
	{"an overtaken copy claims", "claim", "or is_overtaken", "", false},
	{"a late claim claims", "claim", "if now > not_after then return {'LATE'} end", "", false},
	{"the same call has new tokens", "claim", "if token == last_token then return end", "", false},
	{"a repeat asks no token", "claim", "lease and lease.token == last_token and", "lease and", false},
	{"a repeat renews no lease", "claim", "bulk('HSET', leases, renewed_leases)", "", false},
	{"a repeat renews no deadline", "claim", "bulk('ZADD', heartbeat_deadlines, renewed_deadlines)", "", true},
	{"a repeat forgets the cancel", "claim", "(lease.cancel and ' cancel' or '')", "''", false},
	{
		"a repeat forgets its delivery", "claim",
		"string.sub(known, -400) .. ',' .. delivery .. last_ids", "known .. last_ids", false,
	},
	{"what found nothing is kept", "claim", "if not claim_id or #ids > 0 then", "if true then", false},
	{
		"claim takes better tiers too", "claim",
		"key_of(place.name, queue, queues), place.low, upto", "key_of(place.name, queue, queues), '-inf', upto", false,
	},
	{"claim looks at better tiers", "claim", "place.low, '+inf'", "'-inf', '+inf'", false},
	{"claim knows no names", "claim", "by_name and not is_any and", "false and", false},
	{"names go before tiers", "claim", "math.floor(score / band)", "0", false},
}

// tellElsewhereWith is tellWith for claims by id.
func tellElsewhereWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 40, true, true
		o.Queues = &job.QueueBook{}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 40}, {Name: "a:b"}})
	})
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellElsewhere()
	e.Broken(t)
	return s.lines
}

// by claims by id. A delivery may begin with how often the claim was sent before, and '-'.
func (s *telling) by(id, delivery string, most, least int, queues ...string) {
	e := &job.Elsewhere{Worker: "w", ID: id, Delivery: delivery, Queues: queues, Lease: time.Minute, Low: math.Inf(-1)}
	if queues[0] == "by name" {
		e.Queues, e.ByName = queues[1:], true
	}
	if repeat, name, numbered := strings.Cut(delivery, "-"); numbered {
		e.Repeat, _ = strconv.Atoi(repeat)
		e.Delivery = name
	}
	if least > 0 {
		e.Low = float64(int64(least) * s.Env.Options.PriorityBase)
	}
	reply, err := s.Env.Claim(s.Context(), 0, job.ClaimRequest{Max: most, Bound: math.Inf(1), Elsewhere: e})
	var got []string
	for _, l := range reply.Leases {
		got = append(got, fmt.Sprintf("%s attempt %d by %s", l.ID, l.Attempt, l.Token))
		s.leases[slices.Index(s.ids, l.ID)] = l.Ref()
	}
	s.say("claim "+id, fmt.Sprint(got, ", the next is known: ", !math.IsInf(reply.Next, 1)), err)
}

func (s *telling) tellElsewhere() {
	s.by("a", "0", 2, 0, "films") // nothing is there
	s.into("films", job.Paid, 0, 0, 1)
	s.into("a:b", job.Unpaid, 0, 2)
	s.into("films", job.Public, 0, 3)
	s.by("a", "1", 2, 0, "films")
	first := s.leases[0]
	s.by("a", "1", 2, 0, "films") // the same call
	s.by("a", "2", 2, 0, "films") // another delivery: with other tokens
	s.by("a", "1", 2, 0, "films") // a late copy of the first
	released, err := s.Env.Release(s.Context(), 0, []job.Release{{LeaseRef: first}})
	s.say("release of the first answer", released[0].Word, err)
	s.cancel(1, 1)
	s.by("a", "3", 2, 0, "films")
	s.write("heartbeat", 1) // it still hears of the cancel
	s.write("complete", 0)
	s.by("a", "4", 2, 0, "films")
	s.write("release", 1)
	s.into("films", job.Paid, 0, 4)
	s.by("b", "1", 1, 2, "a:b") // 2: UNPAID or worse
	s.by("c", "1", 5, 2, "films", "a:b")
	s.write("fail", 3)
	s.by("c", "2", 5, 2, "films", "a:b")
	s.by("c", "3-3", 5, 2, "films", "a:b")
	s.by("c", "2-4", 5, 2, "films", "a:b") // overtaken
	s.by("d", "1", 5, 0, "films", "a:b")
	s.by("c", "4-5", 5, 2, "films", "a:b") // what d has now is not among it
	s.late()
	s.into("a:b", job.Unpaid, 0, 5)
	s.into("films", job.Unpaid, 0, 6)
	s.into("films", job.Paid, 0, 7)
	s.into("a:b", job.Paid, 0, 8)
	s.by("e", "1", 3, 0, "by name", "films", "a:b") // 7, 8, and 6 although 5 is older
	s.drain(true)
}

// late claims by id with a call that Redis executes when its time is over.
func (s *telling) late() {
	args := []any{"w", "~late", 5, "+inf", 1 << 20, "films", 0, "-inf", "1", 1, "oldest", "", "-", "*", 1000, 1000}
	reply, err := s.Env.Queue.Raw(s.Context(), "claim", 0, args)
	s.say("late claim", reply, err)
}
