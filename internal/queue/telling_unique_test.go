package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// uniqueMutations are faults that only jobs with unique keys show.
var uniqueMutations = []mutation{
	{"submit asks for no holder", "submit", "if not found then return nil end", "if true then return nil end", true},
	{"submit trusts a holder that has ended", "submit",
		"if not is_timed and not lives(job, ended, found.id, found.generation) then return nil end", "", false},
	{"submit refuses nobody", "submit", "if class.on == 'refuse' or is_timed then", "if is_timed then", false},
	{"submit waits for a key for seconds", "submit", "if class.on == 'refuse' or is_timed then",
		"if class.on == 'refuse' then", true},
	{"submit replaces what was claimed", "submit", ".run.first_claim ~= '0' then return nil end",
		".run.first_claim == '' then return nil end", false},
	{"submit replaces what runs", "submit", " or redis.call('HEXISTS', leases, id) == 1", "", false},
	{"submit replaces a dead letter's payload", "submit", "class.generation ~= '1' or ", "", false},
	{
		"submit replaces across tiers", "submit",
		"old and old.tier == class.tier and old.queue == class.queue", "old", false,
	},
	{"submit loses the new payload", "submit", "class.class_line .. head .. '\\n' .. payload)\n  if old.expires",
		"class.class_line .. head .. '\\n')\n  if old.expires", true},
	{"a replaced job counts as it was", "submit", "count_living(class.unique, 1, bytes)",
		"count_living(class.unique, 1, bytes_of(old_head))", true},
	{"a replaced job waits without an end", "submit",
		"due = math.min(due, tonumber(since) + class.max_wait)", "due = due", false},
	{"a replaced job keeps its delay", "submit", "  elseif old_score then\n", "  elseif false then\n", true},
	{"submit keeps every successor", "submit", "if old and is_held_score(score) then", "if false then", false},
	{"a HELD job is ready", "submit",
		"redis.call('ZADD', scheduled, text(held_from + (class.delay > 0 and now + class.delay or 0)), id)",
		"add_now(class.queue, class.score, id)", true},
	{"a HELD job is behind nobody", "submit", "  store_behind(key, holder)\n", "", true},
	{"a HELD job is due at once", "submit", "(class.delay > 0 and now + class.delay or 0)", "0", false},
	{"a HELD job counts as fresh", "submit", "local is_fresh = class.delay == 0 and not is_held",
		"local is_fresh = class.delay == 0", false},
	{"the key is nobody's", "submit", "    store_unique(key, id, class.unique, {}, arrived, now)\n", "", true},
	{"an end keeps the key", "prelude", "if class.unique then free_unique(id, class) end", "", true},
	{"a key for seconds goes with its holder", "prelude",
		"if class.unique_while ~= 's' then pass_on", "if true then pass_on",
		false},
	{"a key for seconds stays for ever", "prelude", ", 'PX', text(left))", ")", true},
	{"a key goes with another's end", "prelude",
		"if found and found.id == id and found.generation == class.generation then",
		"if found then", true},
	{"a HELD job stays HELD", "prelude",
		"if is_held_score(score) then let_go(scheduled, tried, events, id, class, head, score, now) end", "", true},
	{"the key goes to nobody", "prelude", "      store_unique(key, id, class, behind, 0, now)\n      return",
		"      redis.call('DEL', key)\n      return", true},
	{"the next forgets who is behind", "prelude", "store_unique(key, id, class, behind, 0, now)\n      return",
		"store_unique(key, id, class, {}, 0, now)\n      return", true},
	{"a HELD job that ended stays behind", "prelude", "          table.remove(found.behind, n)\n", "", true},
	{"claim keeps the key of a waiting job", "claim", "if class.unique_while == 'w' then free_unique(id, class) end", "",
		false},
	{"claim lets nobody go", "claim", "write_unique(unique, job, scheduled, tried, events, now)", "", false},
	{"a let go job keeps its delay to itself", "prelude", "if ready_at > now then", "if false then", false},
	{"fail takes no key again", "fail", "take_unique_again(unique, id, class, now)", "", true},
	{"reclaim takes no key again", "reclaim", "take_unique_again(unique, id, class, now)", "", true},
	{"restore takes no key", "restore", "class.unique and take_unique(unique, job, ended, id, class, arrived, now, true)",
		"false", true},
	{"restore gives a running job no key", "restore",
		"if class.unique and class.unique_while ~= 'w' then", "if false then",
		true},
	{"restore takes another's key", "prelude",
		"local is_taken = found and found.id ~= id and lives(job, ended, found.id, found.generation)",
		"local is_taken = false", true},
	{"hasten lets a HELD job go", "hasten", "if is_held_score(due) then", "if false then", false},
}

// tellUniqueWith is tellWith for jobs with unique keys.
func tellUniqueWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.ScheduledLimit, o.Journal, o.Embedded = "teller", 40, 4, true, true
	})
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellUnique()
	e.Broken(t)
	return s.lines
}

// uniqueJob returns a submission with one of the telling's unique keys.
func (s *telling) uniqueJob(i int, key string, while job.UniqueWhile, on job.UniqueOn) job.Submission {
	one := queuetest.Job(job.Paid)
	one.ID, one.TraceID, one.Payload = s.ids[i], "trace", fmt.Appendf(nil, "\"payload %*d\"", i+2, i)
	one.Unique, one.UniqueOn = job.Unique(fmt.Sprintf("%032s", key), while), on
	return one
}

// puts submits jobs in one call and tells the answers, without times.
func (s *telling) puts(batch ...job.Submission) {
	replies, err := s.Submit(s.Context(), 0, batch)
	for _, r := range replies {
		s.say("submit", fmt.Sprint(r.Word, " ", r.First, " ", r.Due.IsZero()), err)
	}
	if err != nil {
		s.say("submit", nil, err)
	}
}

// where tells where jobs are, with what payload.
func (s *telling) where(of ...int) {
	for _, i := range of {
		j, err := s.Find(s.Context(), s.ids[i])
		late := time.Until(j.RunAt) > 2*time.Minute
		s.say("find", fmt.Sprint(i, j.Status, j.Tier, string(j.Payload), j.RunAt.IsZero(), late), err)
	}
}

// reap makes the crashed watch take back every job that runs.
func (s *telling) reap() {
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.look(job.Crashed)
}

// requeueUnique gives a dead job with a unique key its second generation.
func (s *telling) requeueUnique(n int, key string) {
	one := s.uniqueJob(n, key, job.WhileLiving, "")
	words, err := s.Env.Requeue(s.Context(), 0, []job.Job{{ID: one.ID, Generation: 2, Tier: one.Tier, Type: "X",
		Payload: []byte("{}"), MaxRetries: 2, Options: one.Options}})
	s.say(fmt.Sprintf("requeue %d", n), words, err)
}

// giveBack restores a job that ran, one that waited behind it, one with a delay, and one whose key is for seconds.
func (s *telling) giveBack() {
	var rows []job.JournalRow
	now := time.UnixMilli(s.Env.Now(s.T))
	for i := range 4 {
		one := s.uniqueJob(i, "a", job.WhileLiving, "")
		if i == 3 {
			one = s.uniqueJob(i, "c", job.WhileSeconds(time.Hour), "")
		}
		rows = append(rows, job.JournalRow{Job: job.Job{ID: one.ID, Generation: 1, Tier: one.Tier, Type: "X",
			Payload: one.Payload, MaxRetries: 2, Options: one.Options, ArrivedAt: now}, Priority: 1})
	}
	rows[0].Attempt, rows[0].FirstTriedAt, rows[0].StartedAt, rows[0].Worker = 1, now, now, "dead"
	rows[2].RunAt = now.Add(time.Hour)
	s.restore(rows...)
}

func (s *telling) tellUnique() {
	l, w, hour := job.WhileLiving, job.WhileWaiting, job.WhileSeconds(time.Hour)
	s.puts(s.uniqueJob(0, "a", l, job.UniqueReturn), s.uniqueJob(1, "a", l, job.UniqueReturn),
		s.uniqueJob(2, "a", l, job.UniqueRefuse), s.uniqueJob(3, "a", l, job.UniqueReplace))
	s.where(0)
	delayed := s.uniqueJob(4, "a", l, job.UniqueReplace)
	delayed.Delay, delayed.MaxWait = time.Hour, time.Minute
	s.puts(delayed)
	s.where(0)
	other := s.uniqueJob(5, "a", l, job.UniqueReplace)
	other.Tier, other.MaxRetries = job.Public, 1
	s.puts(other)
	s.where(0, 5)
	s.puts(s.uniqueJob(6, "a", l, job.UniqueReplace))
	s.where(0, 5)
	s.claim(1, 5)
	s.puts(s.uniqueJob(7, "a", l, job.UniqueReplace), s.uniqueJob(8, "a", l, job.UniqueAfter))
	s.where(0, 5)
	s.hasten(5)
	s.where(5)
	s.write("release", 0)
	s.puts(s.uniqueJob(9, "a", l, job.UniqueReplace))
	s.where(0, 5)
	s.claim(2, 5)
	s.write("complete", 0)
	s.where(5)
	later := s.uniqueJob(10, "a", l, job.UniqueAfter)
	later.Delay = time.Hour
	s.claim(3, 5)
	s.puts(later)
	s.where(5, 10)
	s.write("complete", 5)
	s.where(10)
	s.cancel(10, 0)
	// A waiting job frees its key at its claim, and takes it again.
	s.puts(s.uniqueJob(11, "b", w, job.UniqueAfter), s.uniqueJob(12, "b", w, job.UniqueAfter))
	s.claim(4, 1)
	s.where(11, 12)
	s.write("release", 11)
	s.claim(5, 1)
	s.where(11, 12)
	s.reap()
	s.where(11, 12)
	s.claim(6, 5)
	s.where(11, 12)
	s.write("complete", 11)
	s.write("release", 12)
	s.where(12)
	s.cancel(12, 0)
	// A key for seconds.
	s.puts(s.uniqueJob(13, "c", hour, job.UniqueReturn), s.uniqueJob(14, "c", l, job.UniqueAfter))
	s.claim(7, 5)
	s.write("complete", 13)
	s.puts(s.uniqueJob(14, "c", hour, job.UniqueReturn))
	s.where(13)
	// HELD jobs end; one is behind another; the limit of delayed jobs counts them.
	s.puts(s.uniqueJob(15, "d", l, job.UniqueAfter), s.uniqueJob(16, "d", l, job.UniqueAfter))
	s.kill(16, 1)
	s.where(15, 16)
	s.drain(true)
	s.requeueUnique(16, "d")
	s.puts(s.uniqueJob(17, "d", l, job.UniqueReplace), s.uniqueJob(18, "d", l, job.UniqueAfter))
	s.where(15, 16, 18)
	for i := 19; i < 28; i++ {
		s.puts(s.uniqueJob(i, fmt.Sprint("e", i/2), l, job.UniqueAfter))
	}
	s.cancel(15, 0)
	s.where(16, 18)
	// A key of a job that is not there any more.
	stale := s.uniqueJob(28, "f", l, job.UniqueReturn)
	s.Redis.Set(s.Context(), queue.UniqueKey(0, stale.UniqueHash()), string(s.ids[29])+" 1 ", 0)
	s.puts(stale)
	// Redis lost its jobs.
	s.Flush(s.T)
	s.giveBack()
	s.where(0, 1, 2, 3)
	s.reap()
	s.cancel(0, 0)
	s.where(1, 2, 3)
	s.cancel(1, 0)
	s.where(2, 3)
}

// The same for the faults that only jobs with unique keys show.
func TestMutationsOfUniqueAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, uniqueMutations, tellUniqueWith)
}
