package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// queueMutations are faults that only jobs in declared queues show.
var queueMutations = []mutation{
	{
		"a queue is not counted", "prelude",
		"if class.queue ~= 'main' then change_counter('@' .. class.queue, counter, n) end", "", true,
	},
	{"a queue counts as a tier", "prelude", "if not is_queue then sum = sum + n end", "sum = sum + n", true},
	{
		"every queue is main", "prelude",
		"if name == 'main' then return main_key end", "if true then return main_key end", true,
	},
	{
		"submit puts all into main", "submit",
		"add_entry(class.line or class, class.score, id, head)", "add_entry({queue = 'main'}, class.score, id)", true,
	},
	{
		"submit asks for no limit of the queue", "submit",
		"if queue_full(class, count_limit) then return 'queue' end", "", false,
	},
	{
		"submit forgets what the call put into the queue", "submit",
		"+ new >= class.queue_limit", ">= class.queue_limit", false,
	},
	{
		"submit forgets what the queue had", "submit",
		"(counts[name .. ':' .. counter] or 0) + new", "new", false,
	},
	{"fail puts all into main", "fail", "add_entry(class,", "add_entry({queue = 'main'},", true},
	{"reclaim puts all into main", "reclaim", "add_entry(class,", "add_entry({queue = 'main'},", true},
	{"promote puts all into main", "prelude", "add_entry(class, score_of", "add_entry({queue = 'main'}, score_of", true},
	{"restore puts all into main", "restore", "add_entry(class,", "add_entry({queue = 'main'},", true},
	{
		"restore forgets the queue", "restore",
		"{tier, queue_name, generation, class_rest}", "{tier, 'main', generation, class_rest}", false,
	},
	{
		"cancel looks into main", "prelude",
		"redis.call('ZREM', ready_key(class, queue, queues, lines)", "redis.call('ZREM', queue", true,
	},
	{
		"claim looks into main", "claim",
		"'ZRANGEBYSCORE', key_of(place.name, queue, queues), place.low, upto",
		"'ZRANGEBYSCORE', queue, place.low, upto", false,
	},
	{
		"claim leaves it in its queue", "claim",
		"bulk('ZREM', key_of(place.name, queue, queues), place.taken)", "bulk('ZREM', queue, place.taken)", true,
	},
	{"claim merges the queues of a tier", "claim", "if band > 0 then\n      number", "if false then\n      number", false},
	{
		"claim takes a queue to its end", "claim",
		"local upto, most, number = second or bound,", "band = 0\n    local upto, most, number = bound,", false,
	},
	{"claim passes the bound", "claim", "> tonumber(bound) then upto = bound end", "> tonumber(bound) then end", false},
	{"claim counts from the start again", "claim", "place.read + 1", "place.read", true},
	{"claim rings for main", "claim", "ring(doorbell, place.name)", "ring(doorbell, 'main')", false},
}

// limitMutations are faults that only a claim shows that may not have all jobs.
var limitMutations = []mutation{
	{
		"claim hands out what is paused", "claim",
		"return paused[number] and 0 or (own[number] or 0) + common", "return (own[number] or 0) + common", false,
	},
	{"claim has no limit of common slots", "claim", "common = common - (n - of_its_own)", "", false},
	{
		"claim takes no own slots", "claim",
		"if of_its_own > 0 then own[number] = own[number] - of_its_own end", "", false,
	},
	{
		"claim takes common slots first", "claim",
		"local of_its_own = math.min(own[number] or 0, n)", "local of_its_own = 0", false,
	},
	{"claim hides what it passes over", "claim", "was_passed_over and '1' or ''", "''", false},
	{
		"claim passes over what is paused", "claim",
		"was_passed_over = was_passed_over or not paused[number]", "was_passed_over = true", false,
	},
	{
		"claim rings for what is paused", "claim",
		"place.is_passed_over = place.is_passed_over or not paused[number]", "place.is_passed_over = true", false,
	},
	{"claim rings for nothing that it passes over", "claim", "place.head or place.is_passed_over", "place.head", false},
}

// tellLimitsWith is tellWith for claims that may not have all jobs.
func tellLimitsWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 40, true, true
		o.Queues, o.Serves, o.Pauses = &job.QueueBook{}, []string{"main", "films"}, &job.PauseBook{}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 10}})
	})
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellLimits()
	e.Broken(t)
	return s.lines
}

// tellLimits claims from queues of which the pool may have some jobs only. What it may not have stays, and is rung for
// unless it is paused.
func (s *telling) tellLimits() {
	now := s.Env.Now(s.T)
	s.Env.Redis.Set(s.Context(), queue.Key(0, "clock"), now+time.Hour.Milliseconds(), 0)
	s.into("main", job.Paid, 0, 0, 1)
	s.into("films", job.Paid, 0, 2)
	s.into("main", job.Unpaid, 0, 3, 4, 5)
	s.into("films", job.Public, 0, 6, 7, 8)
	s.Env.Options.Pauses.Set(job.Pauses{List: []job.Pause{{Scope: job.PauseTier(job.Paid)}}})
	s.within(5, job.ClaimRoom{Common: 1, Own: []job.OwnRoom{{Priority: 2, Slots: 1}}}) // two of UNPAID
	s.within(5, job.ClaimRoom{Common: 1, Own: []job.OwnRoom{{Priority: 2, Slots: 1}}}) // the third, and one of PUBLIC
	s.within(5, job.ClaimRoom{Own: []job.OwnRoom{{Priority: 2, Slots: 2}}})            // none: PUBLIC is passed over
	s.within(5, job.ClaimRoom{Own: []job.OwnRoom{{Priority: 3, Slots: 1}}})            // one of PUBLIC
	s.within(5, job.ClaimRoom{Common: 9})                                              // the last one of them
	s.within(5, job.ClaimRoom{Common: 9})                                              // PAID is paused
	s.Env.Options.Pauses.Set(job.Pauses{})
	s.within(1, job.ClaimRoom{Own: []job.OwnRoom{{Priority: 1, Slots: 2}}})
	s.within(9, job.ClaimRoom{Common: 9})
}

// within claims with a room, and says what is left, and for which queues it rang.
func (s *telling) within(most int, room job.ClaimRoom) {
	s.Env.Redis.Del(s.Context(), queue.Key(0, "doorbell"), queue.Key(0, "doorbell")+":films")
	r := s.Env.NextClaim(most)
	r.Room = &room
	reply, err := s.Env.Claim(s.Context(), 0, r)
	var took []int
	for _, l := range reply.Leases {
		took = append(took, slices.Index(s.ids, l.ID))
	}
	rang := s.Env.Redis.Exists(s.Context(), queue.Key(0, "doorbell"), queue.Key(0, "doorbell")+":films").Val()
	left := int(reply.Next / float64(s.Env.Options.PriorityBase))
	if len(took) == 0 || reply.Next > 1e17 {
		left = 0
	}
	s.say(fmt.Sprintf("claim %d within %+v", most, room),
		fmt.Sprintf("%v, left is priority %d, passed over %t, rang %d", took, left, reply.PassedOver, rang), err)
}

// tellQueuesWith is tellWith for jobs in declared queues.
func tellQueuesWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 40, true, true
		o.Queues, o.Serves = &job.QueueBook{}, []string{"main", "films", "a:b"}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 4}, {Name: "a:b"}})
	})
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellQueues()
	e.Broken(t)
	return s.lines
}

// into submits jobs of a tier into a queue, in one call.
func (s *telling) into(name string, tier job.Tier, delay time.Duration, numbers ...int) {
	var batch []job.Submission
	for _, n := range numbers {
		one := job.Submission{ID: s.ids[n], Tier: tier, Type: "X", Payload: []byte("{}"), MaxRetries: 1, Delay: delay}
		if name != job.MainQueue {
			one.Queue = name
		}
		batch = append(batch, one)
	}
	replies, err := s.Env.Submit(s.Context(), 0, batch)
	var words []string
	for _, r := range replies {
		words = append(words, fmt.Sprint(r.Word, " of the queue ", r.Queue))
	}
	s.say(fmt.Sprintf("submit %v into %s", numbers, name), words, err)
	s.Env.Redis.IncrBy(s.Context(), queue.Key(0, "clock"), 10) // the next call's jobs arrive later
}

func (s *telling) tellQueues() {
	now := s.Env.Now(s.T)
	s.Env.Redis.Set(s.Context(), queue.Key(0, "clock"), now+time.Hour.Milliseconds(), 0)
	s.into("films", job.Paid, 0, 0)
	s.into("main", job.Public, 0, 1)
	s.into("a:b", job.Paid, 0, 2)
	s.into("films", job.Paid, 0, 3)
	s.into("films", job.Public, 0, 4, 5, 6) // the last one finds it full
	s.into("films", job.Public, 0, 7)       // so does this one
	s.into("films", job.Paid, time.Hour, 8)
	s.into("main", job.Unpaid, 0, 9)
	// 0 and 3: the queue with the oldest job of the best tier first
	s.next(2)
	s.bounded(5, float64(2*s.Env.Options.PriorityBase+now)) // 2, which is PAID; not 9, which arrived later
	s.Env.Redis.Del(s.Context(), queue.Key(0, "doorbell"), queue.Key(0, "doorbell")+":films")
	s.next(1) // 9, of main; what films has is rung for
	s.write("fail", 0)
	s.write("release", 3)
	s.cancel(4, 0)
	s.age("scheduled", 1000*time.Hour)
	n, err := s.Env.Promote(s.Context(), 0)
	s.say("promote", n, err)
	s.next(20)
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.look(job.Crashed)
	s.next(1)
	s.write("complete", 0)
	s.write("complete", 3)
	row := func(number int, name string, change ...func(*job.JournalRow)) job.JournalRow {
		r := living(s.ids[number], change...)
		r.Queue = name
		return r
	}
	s.restore(row(10, "films"), row(11, "a:b", ran), row(12, "films", due), row(13, "a:b", toCancel))
	s.next(1)
	s.next(20)
	s.into("films", job.Unpaid, 0, 14)
	s.into("films", job.Unpaid, 0, 15)
	bound := 0.0 // if a mutation has put them elsewhere
	for _, first := range s.Env.Redis.ZRangeWithScores(s.Context(), queue.QueueKey(0, "films"), 0, 0).Val() {
		bound = first.Score
	}
	s.bounded(5, bound) // 14, not 15
	s.next(20)
	s.drain(true)
}

// bounded claims jobs whose score is at most bound.
func (s *telling) bounded(most int, bound float64) {
	s.number++
	reply, err := s.Env.Claim(s.Context(), 0, job.ClaimRequest{Number: s.number, Max: most, Bound: bound})
	var got []string
	for _, l := range reply.Leases {
		got = append(got, fmt.Sprint(l.ID, " of ", l.QueueName()))
		s.leases[slices.Index(s.ids, l.ID)] = l.Ref()
	}
	s.say("claim within a bound", fmt.Sprint(got, ", the next is known: ", reply.Next > 0), err)
}
