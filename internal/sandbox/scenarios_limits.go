package sandbox

import (
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func full(s *stage) {
	s.crew()
	retry := s.submit(job.Public, demo{WorkMs: 200, FailFirst: 1, RetryMs: 2200}.job())
	s.until(JobScheduled, retry)
	for range 3 {
		s.until(JobClaimed, s.submit(job.Paid, work(3200*time.Millisecond)))
	}
	s.say("lua/fail.lua", "One PUBLIC job has failed and waits for its retry. Three PAID jobs keep all slots busy.")
	var waiting []job.ID
	for range 7 {
		waiting = append(waiting, s.submit(job.Public, work(300*time.Millisecond)))
	}
	s.refused(job.Public, work(300*time.Millisecond), job.ErrQueueFull)
	s.say("lua/submit.lua", "The capacity is %d, and PUBLIC is refused from 60 %% of it: the eighth gets 503 "+
		"QUEUE_FULL. That was never accepted.", Limit)
	paid := s.submit(job.Paid, work(300*time.Millisecond))
	s.say("lua/submit.lua", "PAID has all of the capacity: a flood of PUBLIC leaves room at the door.")
	s.until(QueuePushed, retry)
	s.await("the retry's return", func(e *Event) bool {
		return e.Kind == QueuePushed && e.Job == retry &&
			e.Script == "promote"
	})
	s.refused(job.Public, work(300*time.Millisecond), job.ErrQueueFull)
	s.say("lua/promote.lua", "The retry is due and enters, though PUBLIC is still full: what was accepted is never "+
		"refused later. It has its old place.")
	s.until(JobCompleted, retry, paid)
	s.until(JobCompleted, waiting...)
	s.say("internal/admission/gate.go",
		"The queue has drained. Gate and capacity are two things: one refuses for health, the other for room.")
}

func outage(s *stage) {
	s.crew()
	s.until(JobCompleted, s.submit(job.Paid, work(300*time.Millisecond)))
	later := work(300 * time.Millisecond)
	later.Delay = 1500 * time.Millisecond
	kept := s.submit(job.Unpaid, later)
	s.say("lua/submit.lua", "One job ran, another is accepted and waits for its time. Now Redis stops answering.")
	s.redis(false)
	s.untilGate("the gate to close", func(e *Event) bool { return !e.Gate.Open })
	s.say("internal/admission/gate.go",
		"Three errors in a row: the gate is closed. Each submit gets a 503 at once, so requests do not pile up.")
	s.refused(job.Public, work(300*time.Millisecond), job.ErrUnhealthy)
	s.untilGate("a probe to fail", func(e *Event) bool { return !e.Gate.Open && strings.Contains(e.Note, "probe") })
	s.say("internal/recovery/watch.go",
		"One tiny write every 2 s probes. The watches back off on their own: %s and %s between looks by now, from %s.",
		s.crashed.Delay(), s.stuck.Delay(), pace.Floor)
	s.redis(true)
	s.say("internal/admission/probe.go",
		"Redis answers again. The next probe that succeeds opens the gate, and the watches look at once.")
	closed := s.await("the gate to close", func(e *Event) bool { return e.Kind == GateChanged && !e.Gate.Open })
	s.untilGate("the gate to open", func(e *Event) bool { return e.Gate.Open && e.ID > closed.ID })
	after := s.submit(job.Paid, work(300*time.Millisecond))
	s.until(JobCompleted, kept, after)
	s.say("docs/ARCHITECTURE.md", "Open. The job that was accepted before the outage ran, and so did a new one, "+
		"without any action by an operator.")
}

// redis cuts the box's Redis off from all processes, or makes it reachable again with all its data.
func (s *stage) redis(there bool) {
	if s.err != nil {
		return
	}
	for _, k := range s.workers {
		if there {
			k.revive()
		} else {
			k.kill()
		}
	}
	if there {
		s.link.heal()
	} else {
		s.link.cut()
	}
}
