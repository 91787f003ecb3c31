package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// crashMutations are faults that only jobs show whose workers die.
var crashMutations = []mutation{
	{"reclaim spends no retry", "reclaim", "text(retries + spent)", "text(retries)", false},
	{"a crash counts as both", "reclaim", "spent = cost == 'retry' and 1 or 0", "spent = 1", false},
	{
		"no crash counts as a retry", "reclaim", "most and 'crash' or 'retry'",
		"most and 'crash' or is_crash and 'nothing' or 'retry'",
		false,
	},
	{
		"no limit is taken for 0", "reclaim", "tonumber(max_crashes[tier] or max_crashes['*'])",
		"tonumber(max_crashes[tier] or max_crashes['*']) or is_crash and 0", false,
	},
	{
		"a crash that spends a retry never ends", "reclaim", "is_spent = cost == 'retry' and", "is_spent = not is_crash and",
		false,
	},
	{
		"a crash that spends a retry is not counted", "reclaim", "is_crash and not is_free and 1",
		"most and not is_free and 1", false,
	},
	{"a free lease counts", "reclaim", "is_free = lease.lease_for == 0 and", "is_free = false and", false},
	{"a free lease counts as a crash", "reclaim", "is_crash and not is_free and 1", "is_crash and 1", false},
	{"every lease is free", "reclaim", "is_free = lease.lease_for == 0 and", "is_free =", false},
	{"a lost lease of the pool is free", "reclaim", "string.sub(lease.token, -2) ~= ':0'", "true", false},
	{"a restored lease ends at once", "restore", "text(now + lease_ms)", "at", false},
	{"reclaim tells no attempt", "reclaim", "tier, cause, attempt, text(spent)", "tier, cause, '0', text(spent)", false},
	{"reclaim tells no retry", "reclaim", "attempt, text(spent)", "attempt, '0'", false},
	{"reclaim tells no crash", "reclaim", "text(spent), text(crashes)", "text(spent), '0'", false},
	{"a restored run ends too early", "restore", "math.max(run_ends, now + 10000)", "run_ends", false},
	{"a restored run never ends", "restore", "math.max(run_ends, now + 10000)", "now + 3600000", false},
	{"a restored lease has another token", "restore", "started, '0', token)", "started, '0', token .. '1')", false},
	{"a heartbeat gives no length", "heartbeat", "is_changed or lease.lease_for == 0 then", "is_changed then", false},
	{"a heartbeat forgets the length", "heartbeat", "head, length_word)", "head)", false},
	{"a crash is not counted", "reclaim", "t.crashes = t.crashes + crashes", "", false},
	{"a stuck run counts as a crash", "reclaim", "cause == 'HEARTBEAT_STOPPED'", "true", false},
	{"a dead worker is told as a slow job", "reclaim", "or crash_deadline <= now + lease.lease_for / 3", "", false},
	{"a living worker is told as a dead one", "reclaim", "lease.lease_for / 3", "lease.lease_for", false},
	{"a lease has no length", "claim", "lease_for = ' for=' .. heartbeat_timeout", "lease_for = ''", false},
	{"no reason is kept", "reclaim", "cause, why, 0", "cause, '', 0", false},
	{"the history has no reason", "reclaim", "lease.token, why)", "lease.token, '')", false},
	{"a crash has no limit", "reclaim", "cost == 'crash' and t.crashes > most", "nil", false},
	{"a crash dies with the retries", "reclaim", "cost == 'retry' and retries >=", "retries >=", false},
	{"reclaim knows no plan", "reclaim", "max_crashes[tier] or", "", false},
	{"claim tells no crashes", "claim", "        note_crashes(id, t)\n", "", false},
	{"the same claim again tells no crashes", "claim", "if stored then note_crashes", "if false then note_crashes", false},
	{"restore forgets crashes", "restore", "t.crashes = tonumber(ARGV[i + 17])", "", false},
	{"restore forgets the crashes of what runs", "restore", "if t.crashes > 0 then", "if false then", false},
}

// tellCrashesWith is tellWith for jobs whose workers die.
func tellCrashesWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 40, true, true
	})
	plans := e.Plans.All()
	for i := range plans {
		plans[i].MaxCrashes = new(i + 1) // PAID 1, UNPAID 2, PUBLIC 3
	}
	e.Plans.Set(plans)
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellCrashes()
	e.Broken(t)
	return s.lines
}

func (s *telling) tellCrashes() {
	s.submit(0, job.Paid, 0)
	s.submit(1, job.Unpaid, 0)
	s.submit(2, job.Public, 0)
	all := s.Plans.All()
	s.Plans.Set(all[:2]) // as if the process had not read the plan of PUBLIC yet
	for range 4 {        // 0 is a dead letter at its second crash, 1 at its third, 2 at its fourth
		s.next(3)
		s.claim(s.number, 3) // the same again
		s.reap()
	}
	s.Plans.Set(all)
	// Failures and crashes do not add up: 3 fails twice and crashes three times, and is no dead letter.
	s.submit(3, job.Public, 0)
	for range 2 {
		s.next(1)
		s.reap()
		s.next(1)
		s.write("fail", 3)
		s.age("scheduled", 1000*time.Hour)
		n, err := s.Env.Promote(s.Context(), 0)
		s.say("promote", n, err)
	}
	s.next(1)
	s.reap()
	// Without a limit a crash spends a retry: 7 is a dead letter at its second crash. 8, whose plan gets its limit after
	// two, is one at its third.
	free := slices.Clone(all)
	for i := range free {
		free[i].MaxCrashes = nil
	}
	s.Plans.Set(free)
	s.submit(7, job.Public, 0)
	s.submit(8, job.Unpaid, 0)
	for range 2 {
		s.next(2)
		s.reap()
	}
	s.Plans.Set(all)
	s.next(1)
	s.reap()
	// A stuck run spends a retry. So does a silent one: it spends a crash.
	s.submit(4, job.Paid, 0)
	for _, silent := range []time.Duration{0, 12 * time.Second} {
		s.next(1)
		s.age("heartbeat_deadlines", silent)
		s.age("run_deadlines", time.Hour)
		s.look(job.Stuck)
		s.age("suspects:stuck", time.Minute)
		s.look(job.Stuck)
	}
	s.next(1)
	s.drain(true)
	// Rows of 5, which waits, and of 6, which ran: both have crashed before.
	rows := []job.JournalRow{living(s.ids[5], tried), living(s.ids[6], ran)}
	rows[0].Crashes, rows[1].Crashes = 1, 1
	s.restore(rows...)
	s.reap() // 6 is a dead letter
	s.next(5)
	s.reap() // 5 is one
	s.drain(true)
	s.requeue(5, 2) // its next generation has not crashed
	s.next(5)
	s.reap()
	// Rows of 9 and 10, which ran and lost Redis: that costs 9 no crash, of which it has none left, and 10 no retry.
	rows = []job.JournalRow{living(s.ids[9], ran, outside), living(s.ids[10], ran, outside)}
	rows[0].Crashes, rows[1].RetryCount = 1, rows[1].MaxRetries
	s.restore(rows[0])
	s.reap()
	s.Plans.Set(free)
	s.restore(rows[1])
	s.reap()
	// The workers of 12 and 13 outlived their server: what 12's reports counts, and 13's dies, which is a crash. The
	// attempts were over their time, and got 10 s more.
	s.restore(living(s.ids[12], ran, outside), living(s.ids[13], ran, outside))
	for _, n := range []int{12, 13} {
		s.leases[n] = job.LeaseRef{ID: s.ids[n], Attempt: 2, Token: "host-1-dead:c1.0-a"}
	}
	s.look(job.Stuck)
	s.look(job.Crashed)
	s.reaches(12, 2, 1)
	s.save(13, 1, "1")
	s.write("complete", 12)
	s.reap()
	s.next(1)
	s.age("run_deadlines", 11*time.Second)
	s.look(job.Stuck)
	s.write("complete", 13)
	s.restore(living(s.ids[14], ran, outside))
	s.age("run_deadlines", 11*time.Second)
	s.look(job.Stuck)
	s.reap()
	s.next(1)
	s.write("complete", 14)
	// 11 died with its embedded server: a retry.
	s.restore(living(s.ids[11], ran))
	s.reap()
	s.next(5)
	s.Plans.Set(all)
	s.reap()
	s.drain(true)
}

// The same for the faults that only jobs show whose workers die.
func TestMutationsOfCrashesAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, crashMutations, tellCrashesWith)
}
