package queue_test

import (
	"fmt"
	"math"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file has the part of the sequence in which operators kill and hasten jobs.

// kill kills a job twice in one call.
func (s *telling) kill(n, generation int) {
	var tiers []job.Tier
	s.killed = func(t job.Tier) { tiers = append(tiers, t) }
	k := job.Killing{ID: s.ids[n], Generation: generation, Reason: fmt.Sprint("no use for ", n)}
	words, err := s.Env.Kill(s.Context(), 0, []job.Killing{k, k})
	s.say(fmt.Sprintf("kill %d", n), fmt.Sprint(words, tiers), err)
}

func (s *telling) hasten(numbers ...int) {
	var ids []job.ID
	for _, n := range numbers {
		ids = append(ids, s.ids[n])
	}
	words, err := s.Env.Hasten(s.Context(), 0, ids)
	var waits []string
	for _, id := range ids { // since when each waits, in hours
		if at := count(s.Env.Snapshot(s.T).Jobs[string(id)]["due"]); at > 0 {
			waits = append(waits, fmt.Sprint(math.Round(float64(s.Env.Now(s.T)-int64(at))/3_600_000)))
		}
	}
	s.say(fmt.Sprintf("hasten %v", numbers), fmt.Sprint(words, waits), err)
}

// operate hastens and kills jobs that are ready, delayed, backing off, running and ended, and a job in its second
// generation. Some come back from their rows.
func (s *telling) operate() {
	s.submit(26, job.Paid, time.Hour)
	s.submit(27, job.Paid, time.Hour)
	s.restore(living(s.ids[28])) // a submit would be one job too many
	s.hasten(27, 27, 28)
	s.next(20)
	s.write("later", 27)
	s.hasten(28) // it runs
	s.kill(28, 1)
	s.kill(27, 2) // another generation
	s.hasten(27)
	s.kill(26, 1) // delayed
	s.kill(27, 1) // ready, tried
	s.hasten(26)  // it has ended
	s.write("later", 27)
	s.write("fail", 28)
	s.kill(28, 1) // ready, after an attempt that failed
	s.restore(living(s.ids[29], toKill, ran))
	s.causes(26, 27, 28, 29)
	s.drain(true)
	s.kill(26, 1)
	s.requeue(26, 2)
	s.kill(26, 1) // a late copy
	s.next(1)
	s.kill(26, 2)
	s.write("complete", 26)
	s.kill(26, 2)
	s.drain(true)
}

// causes says why jobs ended.
func (s *telling) causes(numbers ...int) {
	for _, n := range numbers {
		j, err := s.Env.Find(s.Context(), s.ids[n])
		s.say(fmt.Sprintf("find %d", n), fmt.Sprint(j.Status, " ", j.Cause, " ", j.LastError), err)
	}
}
