package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// apart is how much two clocks of one host may differ: some are read in milliseconds.
const apart = 5 * time.Millisecond

// timeOrder is S15: by Redis' clock a job arrives, is first tried, is started for the last time and ends, in this
// order. That clock agrees with what clients and handlers saw.
func timeOrder(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		for i := range j.outcomes {
			o := &j.outcomes[i]
			if o.Generation == 1 && j.submit != nil && !o.ArrivedAt.IsZero() && (j.submit.Unique.Key == "" || j.accepted()) &&
				j.submit.Schedule == "" { // the job of a schedule arrives when Redis is given it
				b.arrival(j, o)
			}
			b.lastStart(j, o)
		}
	}
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		names := []string{"arrived", "first tried", "started", "ended"}
		before := -1
		times := []time.Time{o.ArrivedAt, o.FirstTriedAt, o.StartedAt, o.EndedAt}
		for n, t := range times {
			if t.IsZero() {
				continue
			}
			if before >= 0 && t.Before(times[before]) {
				b.say("S15", o.ID, "generation %d %s at %s and %s at %s", o.Generation, names[before], clock(times[before]),
					names[n], clock(t))
			}
			before = n
		}
	}
}

// estimate is how wrong the arrival in a journal row may be. The process writes the row before it calls Redis, with
// Redis' time as it last read it. The estimate stays if the process dies before the call, so that the submit has no
// answer, or if Redis loses the job.
const estimate = 50 * time.Millisecond

// arrival checks that a job arrives after its submit was sent and before the client was told that it is accepted,
// and that a delayed job is not tried before its time. The journal keeps both times over a loss of Redis. If no
// client was told, a job may arrive for a while after its client gave up, or after a frozen server went on.
func (b *book) arrival(j *entry, o *Outcome) {
	s := j.submit
	if s.Kind == MakeBatch {
		return // a then job arrives at the end of its round: S30 has that
	}
	first, latest, told := s.Sent, s.answered().Add(unanswered), false
	for _, op := range s.ops {
		if op.Sent.Before(first) {
			first = op.Sent
		}
		if op.Fate == OK && op.ID == j.id && (!told || op.Answered.Before(latest)) {
			latest, told = op.Answered, true
		}
	}
	early := apart
	if s.Flow != "" { // a flow arrives when its process believes that it is
		early = estimate
		latest = latest.Add(estimate)
	}
	lost := slices.ContainsFunc(s.ops, func(op *Op) bool { return op.Fate == Unknown })
	if b.hasRow(j) && (lost || b.forgotWithin(j)) {
		early = estimate
	}
	switch {
	case o.ArrivedAt.After(latest.Add(apart)) && !told && b.thawed(s, o.ArrivedAt):
		b.report.Counts.Thawed++
	case o.ArrivedAt.Before(first.Add(-early)), o.ArrivedAt.After(latest.Add(apart)):
		b.say("S15", j.id, "it arrived at %s, its submit was sent at %s and answered at %s", clock(o.ArrivedAt), clock(first),
			clock(latest))
	case s.Delay > 0 && !o.FirstTriedAt.IsZero() && o.FirstTriedAt.Before(o.ArrivedAt.Add(s.Delay-apart)):
		b.say("S15", j.id, "it arrived at %s, to begin after %s, and was tried at %s", clock(o.ArrivedAt), s.Delay,
			clock(o.FirstTriedAt))
	}
}

// lastStart checks that the attempt that made an outcome was claimed before its handler began, and that a success
// was reported after the handler had ended.
func (b *book) lastStart(j *entry, o *Outcome) {
	var wrong *Run
	runs := j.of(o.Generation)
	for i := range runs {
		r := &runs[i]
		if r.Attempt != o.Attempt || o.Outcome == job.Completed && r.Result == "" {
			continue
		}
		if !r.Began.Before(o.StartedAt.Add(-apart)) && (o.Outcome != job.Completed || !r.Ended.After(o.EndedAt.Add(apart))) {
			return // after a Redis that forgot two runs can have one number: one of them fits
		}
		wrong = r
	}
	if o.Outcome != job.Completed && b.forgotWithin(j) {
		return // an attempt that never began has the number of one that Redis forgot
	}
	if wrong != nil {
		b.say("S15", j.id, "generation %d: attempt %d was claimed at %s and ended at %s, its handler ran from %s to %s",
			o.Generation, o.Attempt,
			clock(o.StartedAt), clock(o.EndedAt), clock(wrong.Began), clock(wrong.Ended))
	}
}

// last returns the end of the run: when it was at rest, or now.
func (b *book) last() time.Time {
	if b.Rested.IsZero() {
		return time.Now()
	}
	return b.Rested
}
