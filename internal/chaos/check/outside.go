package check

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file holds the servers to what they told the workers of other programs. No fault of a server or of a store is an
// excuse here, except a Redis that forgot: a lease is the worker's until its time is over, whatever happens meanwhile.

// outsideCalls is S23: an end that was accepted is the end that SQL has. An end after the lease was lost is refused and
// changes nothing. A lease is refused only after its time, or after its worker's own report.
func outsideCalls(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		for i := range j.runs {
			if r := &j.runs[i]; r.Lease > 0 {
				b.judgeCalls(j, r, j.calls[r.Lease])
			}
		}
	}
}

func (b *book) judgeCalls(j *entry, r *Run, calls []*WorkerCall) {
	refused, reported := false, false // the worker was refused an end; it may have ended the attempt before this call
	for _, c := range calls {
		switch {
		case c.Stranger && c.HTTP == http.StatusOK:
			b.say("S17", j.id, "%s of attempt %d with another worker's key was answered %s", c.Verb, r.Attempt, c.Word)
		case c.Stranger:
		case c.HTTP == http.StatusBadRequest:
			b.say("S23", j.id, "%s of attempt %d, with the lease as it was handed out, was answered %s", c.Verb, r.Attempt,
				c.Word)
		case c.lost():
			if b.counted(j, r, c) {
				b.report.Counts.Unheard++
				reported = true
				continue
			}
			refused = refused || c.ends()
			if !reported && c.Answered.Before(r.Held) && !b.forgot(r.Began.Add(-claimLead), c.Answered) {
				b.say("S23", j.id, "%s of attempt %d by %s was refused at %s with %s, and its lease lives until %s", c.Verb,
					r.Attempt, r.Worker, clock(c.Answered), c.Word, clock(r.Held))
			}
		case c.HTTP == http.StatusOK:
			if next := j.takenOver(r, c.Sent); !reported && next != nil && !b.forgot(r.Began.Add(-claimLead), c.Answered) {
				b.say("S23", j.id, "%s of attempt %d by %s was answered %s, and %s had the job as attempt %d since %s", c.Verb,
					r.Attempt, r.Worker, c.Word, next.Worker, next.Attempt, clock(next.Began))
			}
			if c.ends() {
				b.stored(j, r, c)
			}
		}
		reported = reported || c.ends() && !c.Stranger && !c.lost()
	}
	if refused && !reported && !b.forgotWithin(j) {
		b.unchanged(j, r)
	}
}

func (c *WorkerCall) ends() bool { return c.Verb != "heartbeat" }

// lost says whether the call was refused because the lease was not held any more.
func (c *WorkerCall) lost() bool { return c.HTTP == http.StatusConflict || c.Word == string(job.Lost) }

// counted says whether a fail or a release that was refused had counted before: Redis executed it, and its answer to
// the server was lost. The server repeated it after another worker had ended the job's next attempt, and the scripts
// remember only the last report. The excuse needs the report in the history, at the time of the call, and a fault
// beside SQL within two seconds after Redis executed it.
func (b *book) counted(j *entry, r *Run, c *WorkerCall) bool {
	o := j.outcome(r.Generation)
	if o == nil || !c.lost() || c.Stranger {
		return false
	}
	want := map[string]string{"fail": string(job.HandlerError), "release": "RELEASED"}[c.Verb]
	return slices.ContainsFunc(o.Tries, func(t job.Attempt) bool {
		return t.Number == r.Attempt && r.by(&t) && t.Outcome == want && o.Attempt > t.Number &&
			!t.FinishedAt.Before(c.Sent.Add(-apart)) && !t.FinishedAt.After(c.Answered.Add(apart)) &&
			slices.ContainsFunc(b.Faults, func(f Fault) bool {
				return f.Target != "mysql" && f.overlaps(t.FinishedAt.Add(-apart), t.FinishedAt.Add(atWork))
			})
	})
}

// takenOver returns another run of the job that began after this one and before a time; nil = there is none.
func (j *entry) takenOver(r *Run, before time.Time) *Run {
	for i := range j.runs {
		if o := &j.runs[i]; o.Began.After(r.Began) && o.Began.Before(before) {
			return o
		}
	}
	return nil
}

// stored checks that SQL has the end that a worker was told. A Redis that forgot the end before SQL had it is an
// excuse: the job ran again.
func (b *book) stored(j *entry, r *Run, c *WorkerCall) {
	o := j.outcome(r.Generation)
	if o == nil || b.forgotBetween(j, r.Generation, c.Sent, c.Answered, keptEnds) {
		return // S2 says that there is no outcome
	}
	if want, ok := map[string]string{
		"RETRIED": string(job.HandlerError), "RELEASED": "RELEASED", "LATER": "LATER",
	}[c.Word]; ok {
		t := slices.IndexFunc(o.Tries, func(t job.Attempt) bool { return t.Number == r.Attempt })
		switch {
		case len(o.Tries) >= kept || b.forgotWithin(j):
		case t < 0:
			b.say("S23", j.id, "%s of attempt %d was answered %s, and no history has the attempt", c.Verb, r.Attempt, c.Word)
		case o.Tries[t].Outcome != want:
			b.say("S23", j.id, "%s of attempt %d was answered %s, and its history has %s", c.Verb, r.Attempt, c.Word,
				o.Tries[t].Outcome)
		}
		return
	}
	if string(o.Outcome) != c.Word || o.Attempt != r.Attempt || o.Outcome == job.Completed && o.ResultSum != r.Result {
		b.endedTwice(j.id, o.Generation)
		b.say("S23", j.id, "generation %d: %s of attempt %d by %s was answered %s, SQL has %s by attempt %d, result %.8q",
			o.Generation, c.Verb, r.Attempt, r.Worker, c.Word, o.Outcome, o.Attempt, o.ResultSum)
	}
}

// unchanged checks that SQL has no trace of the ends of a worker whose ends were all refused.
func (b *book) unchanged(j *entry, r *Run) {
	o := j.outcome(r.Generation)
	if o == nil {
		return
	}
	if o.Outcome == job.Completed && o.Attempt == r.Attempt {
		b.say("S23", j.id, "each end of attempt %d by %s was refused, and it made the outcome %s", r.Attempt, r.Worker,
			o.Outcome)
	}
	for _, t := range o.Tries {
		if t.Number == r.Attempt && r.by(&t) && t.Outcome != string(job.HeartbeatStopped) &&
			t.Outcome != string(job.MaxTimeExceeded) && t.Outcome != "CANCELLED" {
			b.say("S23", j.id, "each end of attempt %d by %s was refused, and its history has %s", r.Attempt, r.Worker,
				t.Outcome)
		}
	}
}

// by says whether an attempt of a history is the worker's. The servers put the id of the worker's key before its name.
func (r *Run) by(t *job.Attempt) bool {
	return t.Worker == r.Worker || strings.HasSuffix(t.Worker, "."+r.Worker)
}

// outsideResults is the part of S18 about workers of other programs: each result that SQL has or that a poll showed was
// sent by a worker before. There is no excuse.
func outsideResults(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		if j.submit == nil || j.submit.Type != Elsewhere {
			continue
		}
		for i := range j.outcomes {
			o := &j.outcomes[i]
			if o.Outcome == job.Completed && !j.sent(o.Generation, o.Attempt, o.ResultSum, o.EndedAt.Add(apart)) {
				b.say("S18", id, "generation %d is COMPLETED by attempt %d with the result %.8q, which its worker had not sent",
					o.Generation, o.Attempt, o.ResultSum)
			}
		}
		for _, p := range j.polls {
			if p.Status == job.Completed && !j.sent(p.Generation, 0, p.ResultSum, p.At) {
				b.say("S18", id, "%s got the result %.8q, which no worker had sent", p.By, p.ResultSum)
				break
			}
		}
	}
}

// sent says whether the worker of an attempt had sent a result before a time. An attempt of 0 stands for all. The
// results of Faktory workers are all equal: only the attempt tells whose a result is.
func (j *entry) sent(generation, attempt int, result string, before time.Time) bool {
	for _, calls := range j.calls {
		for _, c := range calls {
			if c.Verb == "complete" && !c.Stranger && c.Generation == generation && c.Result == result &&
				(attempt == 0 || c.Attempt == attempt) && c.Sent.Before(before) {
				return true
			}
		}
	}
	return false
}

// outsideLeases is the part of S14 and L2 about workers of other programs: an attempt is taken for dead after the end
// of its lease, and soon after it.
func outsideLeases(b *book) {
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		if o.Type != Elsewhere {
			continue
		}
		j := b.jobs[o.ID]
		for _, t := range o.Tries {
			if t.Outcome != string(job.HeartbeatStopped) || t.StartedAt.IsZero() {
				continue
			}
			held := t.StartedAt.Add(b.Outside.HeartbeatTimeout)
			lives := held
			for n := range j.runs {
				if r := &j.runs[n]; r.Attempt == t.Number && r.Generation == o.Generation && r.by(&t) {
					held, lives = later(held, r.Held), later(lives, later(r.Held, r.Lives))
				}
			}
			lives = later(lives, b.keptUntil(t.StartedAt, t.FinishedAt))
			if t.FinishedAt.Before(held.Add(-apart)) && !b.lost(t.StartedAt, t.FinishedAt, keptLeases) {
				b.say("S14", o.ID, "attempt %d of %s was taken for dead at %s, and its lease lived until %s", t.Number, t.Worker,
					clock(t.FinishedAt), clock(held))
			}
			took, bound := t.FinishedAt.Sub(lives), crashedLook+secondLook+slack
			if late(took, bound, b.disturbed(nil, lives, t.FinishedAt)) {
				b.say("L2", o.ID, "the lease of attempt %d ended at %s, and it was taken back only after %s; the bound is %s",
					t.Number, clock(lives), took, bound)
			}
		}
	}
}

// leastKept is how long a lease lives at least that the servers keep although their Redis forgot it: its worker has to
// find them again.
const leastKept = 30 * time.Second

// keptUntil returns until when a lease that lived between two times must be left to its worker, because a fault made
// Redis forget it and the servers keep it; the zero time if there was no such fault.
func (b *book) keptUntil(from, to time.Time) (until time.Time) {
	for _, f := range b.amnesia {
		if f.Keeps.Leases && f.overlaps(from, to) {
			until = later(until, f.To.Add(leastKept))
		}
	}
	return until
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// reasonOutside returns why r followed a run by a worker of another program; "" = there is no reason. Such a worker
// keeps its job whatever happens to the servers.
func (b *book) reasonOutside(j *entry, before, r *Run) string {
	for _, c := range j.calls[before.Lease] {
		if (c.Verb == "fail" || c.Verb == "release") && !c.Stranger && (!c.lost() || b.counted(j, before, c)) &&
			c.Sent.Before(r.Began) {
			return byReport
		}
	}
	if !r.Began.Before(before.Held) {
		return bySilence
	}
	for i := range b.Faults {
		if f := &b.Faults[i]; f.ForgetsAcked && f.overlaps(before.Began.Add(-claimLead), r.Began) {
			return f.Kind
		}
	}
	return ""
}
