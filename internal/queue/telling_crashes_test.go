package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// crashMutations are faults that only jobs show whose workers die.
var crashMutations = []mutation{
	{"reclaim spends no retry", "reclaim", "text(retries + 1)", "text(retries)", false},
	{"a crash spends a retry", "reclaim", "is_crash and lease.retries or", "", false},
	{"a crash is not counted", "reclaim", "t.crashes = t.crashes + 1", "", false},
	{"a stuck run counts as a crash", "reclaim", "cause == 'HEARTBEAT_STOPPED'", "true", false},
	{"a crash has no limit", "reclaim", "is_spent = t.crashes >", "is_spent = nil and", false},
	{"a crash dies with the retries", "reclaim", "is_spent = t.crashes >", "is_spent = is_spent or t.crashes >", false},
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
		plans[i].MaxCrashes = i + 1 // PAID 1, UNPAID 2, PUBLIC 3
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
	// A stuck run spends a retry.
	s.submit(4, job.Paid, 0)
	s.next(1)
	s.age("run_deadlines", time.Hour)
	s.look(job.Stuck)
	s.age("suspects:stuck", time.Minute)
	s.look(job.Stuck)
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
}

// The same for the faults that only jobs show whose workers die.
func TestMutationsOfCrashesAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, crashMutations, tellCrashesWith)
}
