package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// placeMutations are faults that only reserved places show.
var placeMutations = []mutation{
	{"submit sees no places", "submit", "+ taken('reserved') end", "end", false},
	{"submit accepts without the mark", "submit", "or not room.is_whole) then", ") then", false},
	{"reserve has no quota", "reserve", "not is_forced and room.quota_spent(class)", "false", false},
	{"reserve has no limits", "reserve", "not is_forced and room.full_limit(class, false)", "false", false},
	{"a forced place is refused", "reserve", "not is_forced and room.full_limit(class, false)",
		"room.full_limit(class, false)", false},
	{"reserve keeps a part", "reserve", "if is_refused then return reply end", "", false},
	{"reserve goes on after a refusal", "reserve", "    word = 'EMPTY'\n", "    is_refused = false\n", false},
	{"a place counts twice", "reserve", "redis.call('HEXISTS', reserved, id) == 1", "false", true},
	{
		"a place beside its job", "reserve",
		"elseif places.has_job(job, ended, id, class.generation) then", "elseif false then", false,
	},
	{"the next generation has no place", "reserve", ">= generation\nend", ">= 1\nend", false},
	{"reserve forgets since when", "reserve", "bulk('ZADD', reserving, times)", "", false},
	{"reserve accepts without the mark", "reserve", "or not is_forced and not room.is_whole then", "then", false},
	{"any token is right", "reserve", "redis.call('HGET', counters, '~') == token", "true", false},
	{"restore keeps the place", "restore", "then places.free(reserved, reserving, id) end", "then end", false},
	{"places count for nobody", "reserve", "count_living(place, n, place.bytes)", "", false},
	{
		"a place counts in no queue", "reserve",
		"if place.counts_as == 'f' then count_job(place, 'fresh', n) end", "", false,
	},
	{"a place weighs nothing", "reserve", "change_counter(place.tier, 'delayedbytes', n * place.bytes)", "", false},
	{"a place stays in reserving", "restore", "redis.call('ZREM', reserving, id)", "", false},
	{"a needed place is given back", "unreserve", "not is_needed or places", "true or places", false},
	{
		"a place of a job that is there stays", "unreserve",
		"or places.has_job(job, ended, id, place.generation) then", "then", false,
	},
	{"a place that was asked for again is given back", "unreserve", "tonumber(since) == tonumber(seen)", "true", false},
	{"a young place is given back", "unreserve", "seen == '-' and not since", "seen == '-'", false},
	{"an end keeps no place", "prelude", "if class.callback and string", "if false and string", false},
	{
		"a cancelled job's callback has a place", "prelude", "and string.sub(line, 1, 9) ~= 'CANCELLED' then", "then",
		false,
	},
	{
		"a callback's place counts for nobody", "prelude", "    count_living(class, 1, bytes)\n  end\nend", "  end\nend",
		true,
	},
	{"a callback's place is not written", "prelude", "  bulk('HSET', reserved, kept_places)\n", "", true},
	{
		"a callback's place is not among the reserved", "prelude", "    change_counter(class.tier, 'reserved', 1)\n", "",
		true,
	},
	{"submit forgets the callback", "submit", ".. expiry .. callback\n", ".. expiry\n", false},
	{"recount sees no places", "recount", "  recount_places()\n  for field", "  for field", true},
}

// TestMutationsOfPlacesAreCaught is TestMutationsAreCaught for the faults that only reserved places show.
func TestMutationsOfPlacesAreCaught(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	caught(t, placeMutations, tellPlacesWith)
}

// tellPlacesWith is tellWith for reserved places.
func tellPlacesWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.ScheduledLimit, o.LivingLimit, o.Journal, o.Embedded = "teller", 6, 6, 9, true, true
		o.Queues, o.Serves = &job.QueueBook{}, []string{"main", "films"}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 3}})
	})
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellPlaces()
	e.Broken(t)
	return s.lines
}

// reserve reserves places, and says what Redis has of them.
func (s *telling) reserve(forced bool, number int, n int, change func(r *job.Reservation)) {
	var all []job.Reservation
	for i := range n {
		r := job.Reservation{ID: s.ids[number+i], Tier: job.Paid, Owner: "ann", Generation: 1, Bytes: 10}
		change(&r)
		all = append(all, r)
	}
	replies, err := s.Env.Reserve(s.Context(), 0, all, forced)
	var words []job.Word
	for _, r := range replies {
		words = append(words, r.Word)
	}
	s.say(fmt.Sprintf("reserve %d from %d on", n, number), words, err)
	s.counts()
}

// counts says what the counters and the places are.
func (s *telling) counts() {
	snap := s.Env.Snapshot(s.T)
	s.say("there are", fmt.Sprintf("%v %v, %d places, %d not confirmed", snap.Counters, snap.Owners, len(snap.Reserved),
		len(snap.Reserving)), nil)
}

func (s *telling) unreserve(seen string, needed bool, numbers ...int) {
	var all []job.Reserved
	for _, n := range numbers {
		all = append(all, job.Reserved{ID: s.ids[n], Seen: seen, Needed: needed})
	}
	s.say(fmt.Sprintf("unreserve %v, seen %.1q", numbers, seen), "", s.Env.Unreserve(s.Context(), 0, all))
	s.counts()
}

func (s *telling) tellPlaces() {
	plain := func(*job.Reservation) {}
	waits := func(r *job.Reservation) { r.Waits = true }
	s.tellCallbacks()
	s.reserve(false, 0, 2, plain)
	s.reserve(false, 0, 2, plain)                                    // again
	s.reserve(false, 2, 2, func(r *job.Reservation) { r.Quota = 3 }) // the second one is beyond it
	s.reserve(false, 2, 3, func(r *job.Reservation) { r.Quota = 2 }) // so is the first
	s.reserve(false, 4, 2, func(r *job.Reservation) { r.Queue = "films" })
	s.reserve(false, 6, 2, func(r *job.Reservation) { r.Queue = "films" }) // the second one finds it full
	s.reserve(false, 6, 2, waits)
	s.reserve(false, 8, 2, func(r *job.Reservation) { r.Queue, r.Waits = "films", true })
	s.into("main", job.Paid, 0, 20) // the ninth
	s.into("main", job.Paid, 0, 21) // too many live
	s.reserve(true, 10, 2, plain)   // SQL has them
	s.reserve(true, 12, 1, func(r *job.Reservation) { r.Started = true })
	s.restore(living(s.ids[0]), living(s.ids[6]))
	s.counts()
	s.reserve(false, 0, 1, plain) // it is there
	s.unreserve("-", false, 1, 4) // they are young
	s.unreserve("", true, 1)
	s.unreserve("-", false, 1)
	s.unreserve("17", false, 4)
	s.unreserve("", false, 4, 5)
	s.unreserve("", false, 4)
	found, err := s.Env.Recount(s.Context(), 0, true)
	s.say("recount", found, err)
	s.counts()
	s.Env.Redis.HSet(s.Context(), queue.Key(0, "reserved"), string(s.ids[0]), "l PAID main - 1 5")
	for counter, n := range map[string]int64{"PAID:reserved": 1, "PAID:bytes": 5, "bytes": 5} {
		s.Env.Redis.HIncrBy(s.Context(), queue.Key(0, "counters"), counter, n)
	}
	s.unreserve("", true, 0) // the job is there
	s.restore(living(s.ids[13], toCancel))
	s.reserve(true, 13, 1, plain)
	s.reserve(true, 13, 1, func(r *job.Reservation) { r.Generation = 2 })
	s.next(1)
	s.write("fail", 0)
	s.age("scheduled", 1000*time.Hour)
	s.Env.Redis.HDel(s.Context(), queue.Key(0, "counters"), "-")
	s.into("main", job.Paid, 0, 30)
	s.Env.Redis.HDel(s.Context(), queue.Key(0, "counters"), "-")
	s.reserve(false, 31, 1, plain)
	s.Env.Redis.HDel(s.Context(), queue.Key(0, "counters"), "-")
	s.Env.Redis.HSet(s.Context(), queue.Key(0, "counters"), "~", "5")
	_, err = s.Env.Raw(s.Context(), "reserve", 0, []any{"9007199254740991", "", 1, "6"})
	s.say("another token", s.Env.Redis.HExists(s.Context(), queue.Key(0, "counters"), "-").Val(), err)
	_, err = s.Env.Raw(s.Context(), "reserve", 0, []any{"9007199254740991", "", 1, "5"})
	s.say("the token", s.Env.Redis.HGetAll(s.Context(), queue.Key(0, "counters")).Val(), err)
}

// tellCallbacks ends jobs whose callbacks take over their places.
func (s *telling) tellCallbacks() {
	var batch []job.Submission
	for n := 32; n < 34; n++ {
		batch = append(batch, job.Submission{ID: s.ids[n], Tier: job.Paid, Type: "X", Owner: "bob", Payload: []byte("{}"),
			Options: job.Options{CallbackURL: "https://example.com"}})
	}
	replies, err := s.Env.Submit(s.Context(), 0, batch)
	s.say("submit two with callbacks", []job.Word{replies[0].Word, replies[1].Word}, err)
	s.cancel(33, 0)
	s.counts()
	s.next(10)
	s.write("complete", 32)
	s.counts()
	found, err := s.Env.Recount(s.Context(), 0, true)
	s.say("recount", found, err)
	s.restore(living(job.CallbackID(s.ids[32], 1), func(l *job.JournalRow) { l.Owner = "bob" }))
	s.counts()
	s.next(10)
	s.write("complete", -1) // ids has no callback
	s.counts()
}
