package sandbox

import (
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Scenario is a story that a box can play.
type Scenario struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Shows string `json:"shows"` // what the viewer sees
	play  func(s *stage)
}

var scenarios = []Scenario{
	{"happy", "The happy path", "Three jobs, one per tier, from the submit to the archive; a fourth is cancelled while it waits.", happy},
	{"overtake", "A flood, overtaken", "PUBLIC floods the queue. One PAID job comes last and is next.", overtake},
	{"crash", "A worker dies", "Its heartbeats stop. The watch takes its job back to its old place, another worker " +
		"finishes it, and the dead one's late answer changes nothing.", crash},
	{"hang", "A job hangs", "The maximum processing time ends an attempt: the worker reports it, and where the worker " +
		"cannot, a second watch does.", hang},
	{"dead", "Retries spent", "An attempt fails, its retry fails too: a dead letter. An operator requeues it.",
		dead},
	{"full", "The queue is full", "PUBLIC has its share of the capacity and is refused. PAID still enters, and so does a retry.", full},
	{"outage", "Redis fails", "The gate closes after three errors, probes, and opens by itself. What was accepted " +
		"before is still there.", outage},
}

// Scenarios returns all scenarios in the order of a tour.
func Scenarios() []Scenario { return append([]Scenario(nil), scenarios...) }

func find(id string) (Scenario, bool) {
	for _, s := range scenarios {
		if s.ID == id {
			return s, true
		}
	}
	return Scenario{}, false
}

func happy(s *stage) {
	s.crew()
	s.say("internal/admission/admission.go",
		"Three clients submit, one per tier. A submit goes through the gate, and the script decides whether there is room.")
	paid := s.submit(job.Paid, work(1200*time.Millisecond))
	unpaid := s.submit(job.Unpaid, work(900*time.Millisecond))
	public := s.submit(job.Public, work(600*time.Millisecond))
	s.say("lua/submit.lua", "Accepted means: in Redis. The score in main:queue is the tier's priority and the arrival, "+
		"so the best job is the first member.")
	s.until(JobClaimed, paid, unpaid, public)
	s.say("lua/claim.lua", "A claim moves a job out of the queue and into both processing sets in one script: there is "+
		"no moment at which a crash loses it.")
	later := work(600 * time.Millisecond)
	later.Delay = 5 * time.Second
	cancelled := s.submit(job.Unpaid, later)
	s.until(JobScheduled, cancelled)
	if s.err == nil {
		_, s.err = s.server.Cancel(s.ctx, 0, []job.Cancellation{{ID: cancelled}})
	}
	s.say("lua/cancel.lua", "A fourth job was to run in five seconds. It is cancelled while it waits, which is an "+
		"ending like any other.")
	s.until(JobCompleted, paid, unpaid, public)
	s.say("lua/complete.lua", "complete shows the lease. The result enters the outbox in the same script.")
	s.until(JobArchived, paid, unpaid, public, cancelled)
	s.say("lua/acknowledge.lua", "SQL has all four outcomes, and only now Redis lets go of them.")
}

func overtake(s *stage) {
	s.crew()
	var running, waiting []job.ID
	for range 3 {
		running = append(running, s.submit(job.Public, work(1800*time.Millisecond)))
	}
	s.until(JobClaimed, running...)
	for range 6 {
		waiting = append(waiting, s.submit(job.Public, work(500*time.Millisecond)))
	}
	s.say("lua/submit.lua", "A flood of PUBLIC: three jobs run, six wait, in the order in which they came.")
	paid := s.submit(job.Paid, work(500*time.Millisecond))
	s.say("lua/submit.lua", "A PAID job comes last. Its priority makes its score the lowest: it is the first member of "+
		"main:queue at once.")
	s.until(JobClaimed, paid)
	s.say("lua/claim.lua", "The first free slot takes it. The queue is not sorted again: a claim takes the lowest scores.")
	s.until(JobCompleted, paid)
	s.until(JobCompleted, waiting...)
	s.say("lua/claim.lua", "Nothing that ran was disturbed, nothing that waits is forgotten: the PUBLIC jobs follow in "+
		"their order.")
}

func crash(s *stage) {
	dying := s.hire("worker-a", 1)
	victim := s.submit(job.Public, demo{WorkMs: 1500}.job())
	s.until(JobClaimed, victim)
	s.say("lua/heartbeat.lua", "worker-a has the job. Every half second one heartbeat moves its deadline: now + 1.5 s "+
		"for PUBLIC here.")
	s.until(LeaseBeat, victim)
	if s.err == nil {
		dying.kill()
	}
	s.hire("worker-b", 2)
	s.say("internal/worker/beat.go",
		"worker-a is cut off: no heartbeat, no answer. No process has noticed yet. worker-b starts, and younger jobs arrive.")
	var younger []job.ID
	for range 8 {
		younger = append(younger, s.submit(job.Public, work(1400*time.Millisecond)))
	}
	s.until(LeaseExpired, victim)
	s.say("lua/reclaim.lua", "The deadline has passed. The watch only notes it: one look is not enough, for it may be "+
		"Redis that stood still.")
	s.until(JobRequeued, victim)
	s.say("lua/reclaim.lua", "At a second look, 2 s later, nothing had moved. The job goes back with its old score: in "+
		"front of the younger ones. A retry is spent.")
	s.until(JobCompleted, victim)
	s.until(JobCompleted, younger...)
	s.say("lua/complete.lua", "worker-b has finished it, as attempt 2. Now worker-a is let through again, and still "+
		"wants to report its own result.")
	if s.err == nil {
		dying.revive()
	}
	s.until(LeaseLost, victim)
	s.say("lua/complete.lua", "LOST: attempt and token are not the stored ones. Every report shows the lease, and "+
		"this one is history.")
}

func hang(s *stage) {
	mute := s.hire("worker-a", 1)
	unheard := s.submit(job.Public, demo{WorkMs: 300, HangFirst: 1, Deaf: true}.job())
	s.until(JobClaimed, unheard)
	if s.err == nil {
		mute.calls.cut() // its heartbeats have connections of their own
	}
	s.hire("worker-b", 2)
	heard := s.submit(job.Public, demo{WorkMs: 300, HangFirst: 1}.job())
	s.until(JobClaimed, heard)
	s.say("internal/worker/watch.go",
		"Two jobs hang, and their heartbeats go on: no process has died. What runs out is the maximum processing time, 3 "+
			"s for PUBLIC here.")
	s.say("internal/worker/watch.go",
		"worker-b can end its job's context and report. worker-a cannot: of its connections only the heartbeats' still work.")
	s.until(JobRequeued, heard)
	s.say("lua/fail.lua", "worker-b reports MAX_TIME_EXCEEDED. A retry is spent, and the job is back at its place at once.")
	s.until(JobCompleted, heard)
	s.until(LeaseExpired, unheard)
	s.say("lua/reclaim.lua", "worker-a's job is found by the second watch, over processing:by-maxtime. Heartbeats do "+
		"not move that deadline.")
	s.until(JobRequeued, unheard)
	s.until(JobCompleted, unheard)
	s.say("lua/reclaim.lua", "Taken back at the second look, and finished by worker-b. The watch is the backstop; the "+
		"worker is first wherever it can be.")
}

func dead(s *stage) {
	s.crew()
	id := s.submit(job.Public, demo{WorkMs: 400, FailFirst: 2}.job())
	s.say("lua/submit.lua", "PUBLIC has one retry. This job's first two attempts fail.")
	s.until(JobScheduled, id)
	s.say("lua/fail.lua", "The first failure waits for its backoff in scheduled, with its score: it keeps its place.")
	s.until(JobDead, id)
	s.say("lua/fail.lua", "The retry failed too. No retry is left: the dead letter enters the outbox, in the same script.")
	s.until(JobArchived, id)
	s.say("internal/recovery/drainer.go",
		"The drainer took it to failed_jobs, with its payload and its attempts, and Redis knows: FAILED. An operator "+
			"requeues it.")
	s.requeue(id)
	s.say(
		"lua/restore.lua",
		"The same job, generation 2: a new arrival and a fresh budget of retries. Attempts go on counting.",
	)
	s.until(JobCompleted, id)
	s.await("the second life in the archive",
		func(e *Event) bool { return e.Kind == JobArchived && e.Job == id && e.Attempt == 3 })
	s.say("lua/acknowledge.lua", "Attempt 3 did it. The archive has both lives: the dead letter and the result.")
}

// requeue gives a dead letter of the archive its next generation.
func (s *stage) requeue(id job.ID) {
	if s.err != nil {
		return
	}
	letter, ok := s.archive.row(id, 1)
	if !ok {
		s.err = fmt.Errorf("requeue %s: %w", id, job.ErrNotFound)
		return
	}
	plan, _ := s.book.Plan(letter.Tier)
	dead := job.DeadLetter{Job: letter.Job}
	words, err := s.server.Restore(s.ctx, 0, []job.JournalRow{dead.Next(plan.Priority)}, time.Now())
	if err == nil && words[0] != job.OK {
		err = fmt.Errorf("requeue %s: %s", id, words[0])
	}
	s.err = err
	s.wake()
}
