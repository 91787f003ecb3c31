package queue_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// expiryMutations are faults that only jobs show that must be claimed by a time.
var expiryMutations = []mutation{
	{"submit keeps no expiry", "submit", "  bulk('ZADD', expiries, expiry_entries)\n", "", true},
	{"submit keeps no expiry with a unique key", "submit",
		"  if class.expires then redis.call('ZADD', expiries, class.expires, id) end\n  if not holder",
		"  if not holder", true},
	{"a replaced job keeps its expiry", "submit",
		"  if old.expires then redis.call('ZREM', expiries, id) end\n", "", true},
	{"a replaced job gets no expiry", "submit",
		"  if class.expires then redis.call('ZADD', expiries, class.expires, id) end\n  if is_held", "  if is_held", true},
	{"claim hands out what has expired", "claim", "is_expired(class, tried_texts[i], now)", "false", false},
	{"claim leaves it in expiries", "claim", "bulk('ZREM', expiries, claimed_in_time)", "", true},
	{"claim ends nobody", "claim", "  write_ends(outbox, ended, unacked, tried, checkpoints, reserved)\n", "", true},
	{"claim counts no owner's end", "claim", "write_counters(counters, owners)", "write_counters(counters, {})", true},
	{"claim tells no tier", "claim", "expired_tiers[#expired_tiers + 1] = class.tier", "", false},
	{"a claimed job expires", "prelude",
		"class.expires <= now and parse_tried(tried_text).run.first_claim == '0'",
		"class.expires <= now", false},
	{"a job expires early", "prelude", "class.expires <= now", "true", false},
	{"an end leaves the expiry", "prelude", "  if class.expires then redis.call('ZREM', expiries, id) end\n", "", true},
	{"an expired job is CANCELLED", "prelude", "head, 'EXPIRED', at, t)", "head, 'CANCELLED', at, t)", false},
	{"expire leaves what it met", "expire", "bulk('ZREM', expiries, due)", "", false},
	{"expire ends what runs", "expire", "not running[i] and ", "", true},
	{"expire ends what has ended", "expire", "not read_ended(ended, id) and ", "", true},
	{"expire counts nothing", "expire", "write_counters(counters, owners)", "", true},
	{"expire ends nobody", "expire", "write_ends(outbox, ended, unacked, tried, checkpoints, reserved)", "", true},
	{"expire frees no key", "expire", "write_unique(unique, job, scheduled, tried, events, now)", "", true},
	{"expire queues nobody", "expire", "write_entries(queue, queues, doorbell, job, lines)", "", true},
	{"expire names no tier", "expire", "'EXPIRED ' .. class.tier", "'EXPIRED '", false},
	{"restore keeps no expiry", "restore", "bulk('ZADD', expiries, expiry_entries)", "", true},
	{"restore lets a claimed job expire", "restore", "class.expires and is_fresh", "class.expires", true},
	{"audit misses an expiry", "audit", "wanted and tonumber(places.expiries or 0) ~= class.expires", "false", true},
	{"audit keeps an expiry", "audit", "remove_if_misplaced(expiries, id, places.expiries and not wanted)", "", true},
	{"audit lets what runs expire", "audit",
		"remove_if_misplaced(expiries, id, places.expiries)\n  remove_if_misplaced(outbox",
		"remove_if_misplaced(outbox", true},
	{"audit lets what has ended expire", "audit",
		"local function leave_sets(id, places)\n  remove_if_misplaced(expiries, id, places.expiries)\n",
		"local function leave_sets(id, places)\n", true},
	{"an overtaken job expires", "audit", "  redis.call('ZREM', expiries, id)\n", "", true},
}

// tellExpiryWith is tellWith for jobs that must be claimed by a time.
func tellExpiryWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	s := &telling{T: t, ids: ids, leases: map[int]job.LeaseRef{}}
	var told []job.Tier
	s.Env = queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Journal, o.Embedded = "teller", true, true
		o.Expired = func(tier job.Tier) { told = append(told, tier) }
	})
	change(s.Env.Queue)
	s.tellExpiry()
	s.say("told", fmt.Sprint(told), nil)
	s.Broken(t)
	return s.lines
}

// timed returns a submission with a time by which it must be claimed: passed says that the time has passed.
func (s *telling) timed(i int, tier job.Tier, passed bool) job.Submission {
	one := queuetest.Job(tier)
	one.ID, one.TraceID, one.Owner = s.ids[i], "trace", "ann"
	one.ExpiresMs = s.Env.Now(s.T) + 1000*3600*1000
	if passed {
		one.ExpiresMs = s.Env.Now(s.T) - 3600*1000
	}
	return one
}

func (s *telling) expire() {
	n, err := s.Env.Queue.Expire(s.Context(), 0)
	s.say("expire", n, err)
}

// lapse makes the time of a job pass.
func (s *telling) lapse(i int) {
	passed, texts := s.Env.Now(s.T)-1, []string{"job"}
	if s.Snapshot(s.T).State(s.ids[i]) == job.Processing {
		texts = append(texts, "leases")
	}
	for _, of := range texts {
		s.Env.Edit(s.T, of, s.ids[i], func(text string) string {
			return passing.ReplaceAllString(text, fmt.Sprint(" exp=", passed))
		})
	}
	s.Redis.ZAddXX(s.Context(), queue.Key(0, "expiries"),
		redis.Z{Score: float64(passed), Member: string(s.ids[i])})
}

var passing = regexp.MustCompile(` exp=\d+`)

// strays puts jobs into expiries that have no place there.
func (s *telling) strays(of ...int) {
	for _, i := range of {
		s.Redis.ZAdd(s.Context(), queue.Key(0, "expiries"), redis.Z{Score: 5, Member: string(s.ids[i])})
	}
}

// audits makes a pass of the audit. SQL has an outcome of one job.
func (s *telling) audits(ended int) {
	sql := []job.Recorded{{Generation: 1, Status: job.Cancelled}}
	found := pass(s.T, s.Env.Queue, func(id job.ID) []job.Recorded {
		if id == s.ids[ended] {
			return sql
		}
		return nil
	})
	s.say("audit pass", len(found), nil)
}

func (s *telling) tellExpiry() {
	s.puts(s.timed(0, job.Paid, true), s.timed(1, job.Paid, false), s.timed(2, job.Unpaid, true))
	s.claim(1, 2) // 0 ends, and 1 is handed out
	s.expire()    // 2
	s.lapse(1)
	s.strays(1)
	s.expire() // it runs on
	s.write("release", 1)
	s.strays(0, 1)
	s.expire()
	s.next(1) // 1, which was claimed in time
	s.write("release", 1)
	delayed := s.timed(4, job.Public, true)
	delayed.Delay = time.Hour
	s.puts(delayed, s.timed(3, job.Public, false), s.timed(5, job.Public, false))
	// The jobs end in the order of their ids: the outbox has ends of one millisecond in that order.
	s.cancel(3, 0)
	s.expire()
	s.drain(true)
	// Unique keys.
	l := job.WhileLiving
	holder, held := s.uniqueJob(6, "a", l, job.UniqueAfter), s.uniqueJob(7, "a", l, job.UniqueAfter)
	holder.ExpiresMs = s.timed(6, job.Paid, true).ExpiresMs
	s.puts(holder, held)
	s.expire()
	s.where(6, 7)
	again, never := s.uniqueJob(8, "a", l, job.UniqueReplace), s.uniqueJob(9, "a", l, job.UniqueReplace)
	again.ExpiresMs = s.timed(8, job.Paid, true).ExpiresMs
	s.puts(again)
	s.puts(never)
	s.expire()
	s.puts(again)
	s.next(2) // it ends 7, and hands out 1
	s.where(7)
	// What a person edited: the entries of 0, which has ended, of 1, which runs, and of 5 and 10, which wait.
	s.puts(s.timed(10, job.Public, false), s.timed(11, job.Public, false))
	s.strays(0, 1)
	s.Redis.ZRem(s.Context(), queue.Key(0, "expiries"), string(s.ids[10]))
	s.audits(11)
	s.write("release", 1)
	s.strays(1)
	s.audits(11)
	// Redis lost its jobs.
	s.Flush(s.T)
	now := time.UnixMilli(s.Env.Now(s.T))
	rows := []job.JournalRow{living(s.ids[20]), living(s.ids[21]), living(s.ids[22], ran)}
	rows[1].FirstTriedAt, rows[1].Attempt = now.Add(-time.Minute), 1
	for i := range rows {
		rows[i].ExpiresMs, rows[i].TraceID = now.UnixMilli()-1, "trace"
	}
	s.restore(rows...)
	s.expire()
	s.next(5)
}

// The same for the faults that only jobs show that must be claimed by a time.
func TestMutationsOfExpiryAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, expiryMutations, tellExpiryWith)
}
