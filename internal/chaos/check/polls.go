package check

import (
	"net/http"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// terminalIsFinal is S12: after an end, no poll shows anything else of that generation; only a dead letter has a
// next generation; and a cancel that was accepted makes the job CANCELLED. A Redis that forgot may show a job
// alive again, and may accept a cancel that comes too late.
func terminalIsFinal(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		ends := map[int]*Poll{}
		var newest *Poll
		for _, p := range j.polls {
			if p.HTTP != http.StatusOK {
				continue
			}
			if end := ends[p.Generation]; end != nil && end.By != p.By && end.Status != p.Status && p.Sent.After(end.At) &&
				!b.lost(j.since(end), p.At, keptEnds) && !b.firstStands(j, end, p) {
				if p.Status.Ended() {
					b.endedTwice(id, p.Generation)
				}
				b.say("S12", id, "generation %d: %s told %s, later %s told %s", p.Generation, end.Status, end.By, p.Status, p.By)
				break
			}
			// Before Redis has a requeued generation only SQL knows of it: see requeuesTold.
			if newest != nil && p.Generation < newest.Generation && newest.By != p.By && p.Sent.After(newest.At) &&
				!b.sqlAway(p.Sent, p.At) && !b.lost(newest.Sent, p.At, keptLives) {
				b.say("S12", id, "%s saw generation %d, later %s saw generation %d", newest.By, newest.Generation, p.By,
					p.Generation)
				break
			}
			if ends[p.Generation] == nil && p.Status.Ended() {
				ends[p.Generation] = p
			}
			if newest == nil || p.Generation > newest.Generation {
				newest = p
			}
		}
		for g, end := range ends {
			if o := j.outcome(g); o != nil && o.Outcome != end.Status && !b.forgotBetween(j, g, end.Sent, end.At, keptEnds) {
				b.endedTwice(id, g)
				b.say("S12", id, "generation %d was shown as %s, its outcome is %s", g, end.Status, o.Outcome)
			}
		}
		for i := 1; i < len(j.outcomes); i++ {
			if before := &j.outcomes[i-1]; before.Generation < j.outcomes[i].Generation && before.Outcome != job.Failed {
				b.say("S12", id, "generation %d is %s, and generation %d has an outcome", before.Generation, before.Outcome,
					j.outcomes[i].Generation)
			}
		}
		b.keptCancels(j)
	}
}

func (b *book) keptCancels(j *entry) {
	if len(j.outcomes) == 0 {
		return
	}
	for i := range j.outcomes {
		if j.outcomes[i].Outcome == job.Cancelled {
			return
		}
	}
	for _, op := range j.cancels {
		if op.Fate == OK && !b.cancelExcused(j, op) {
			b.say("S12", j.id, "a cancel was answered %d at %s, and no generation is CANCELLED: the last is %s", op.Status,
				clock(op.Answered),
				j.outcomes[len(j.outcomes)-1].Outcome)
			return
		}
	}
}

// cancelExcused says whether a Redis that forgot may be the reason that a job went on after its cancel was
// accepted. If the servers keep cancels, that holds only for a job that had ended before the cancel was sent, and
// that Redis showed alive again.
func (b *book) cancelExcused(j *entry, op *Op) bool {
	last := j.outcomes[len(j.outcomes)-1].EndedAt
	return b.forgotBetween(j, 0, op.Sent, op.Answered, keptCancel) ||
		last.Before(op.Sent) && b.forgotBetween(j, 0, op.Sent, op.Answered, func(Keeps) bool { return false })
}

// requeuesTold is the part of S16 about requeues: once a requeue was answered with 202, no poll shows the dead
// generation any more. The excuse is that SQL does not answer, because only SQL has the promise.
func requeuesTold(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		for _, op := range j.requeues {
			i := slices.IndexFunc(j.polls, func(p *Poll) bool {
				return p.HTTP == http.StatusOK && p.Sent.After(op.Answered) && p.Generation <= op.Generation &&
					!b.sqlAway(p.Sent, p.At)
			})
			if op.Fate == OK && op.Generation > 0 && i >= 0 {
				b.say("S16", id, "its requeue was answered with %d at %s, and %s later %s was told %s of generation %d", op.Status,
					clock(op.Answered), j.polls[i].Sent.Sub(op.Answered).Round(time.Millisecond), j.polls[i].By, j.polls[i].Status,
					j.polls[i].Generation)
				break
			}
		}
	}
}

// sqlAway says whether a fault of SQL overlaps the time between the two.
func (b *book) sqlAway(from, to time.Time) bool {
	return slices.ContainsFunc(b.Faults, func(f Fault) bool { return f.Target == "mysql" && f.overlaps(from, to) })
}

// lastLook is S19 as clients see it: at rest every poll shows the end of the last generation that SQL has. There
// is no excuse.
func lastLook(b *book) {
	if b.Rested.IsZero() {
		return
	}
	for _, id := range b.order {
		j := b.jobs[id]
		o := j.outcome(j.generations())
		for _, p := range j.polls {
			if p.HTTP != http.StatusOK || !p.Sent.After(b.Rested) || o == nil ||
				p.Generation == o.Generation && p.Status == o.Outcome {
				continue
			}
			b.say("S19", id, "at rest %s was told %s of generation %d, SQL has %s of generation %d", p.By, p.Status,
				p.Generation, o.Outcome, o.Generation)
			break
		}
	}
}

// pollsMonotone is S16: what one poller sees of a generation does not go back from its end, and a known job stays
// known. S18 compares the results that polls showed with SQL's.
func pollsMonotone(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		last := map[string]*Poll{} // by poller: the latest poll that found the job
		var known *Op              // the first answer that gave the job's id
		if j.submit != nil {
			for _, op := range j.submit.ops {
				if op.Fate == OK && op.ID == id && (known == nil || op.Answered.Before(known.Answered)) {
					known = op
				}
			}
		}
		for _, p := range j.polls {
			before := last[p.By]
			if p.HTTP == http.StatusNotFound {
				told := known != nil && p.Sent.After(known.Answered) && (b.journaled() || !b.forgot(known.Sent, p.At))
				if told || before != nil && !b.forgot(before.Sent, p.At) {
					b.say("S16", id, "%s got 404 at %s for a job that is known", p.By, clock(p.At))
					break
				}
			}
			if p.HTTP != http.StatusOK {
				continue
			}
			if before != nil && (p.Generation < before.Generation && !b.lost(before.Sent, p.At, keptLives) ||
				p.Generation == before.Generation && before.Status.Ended() && p.Status != before.Status &&
					!b.lost(j.since(before), p.At, keptEnds) && !b.firstStands(j, before, p)) {
				b.say("S16", id, "%s saw %s of generation %d, then %s of generation %d", p.By, before.Status, before.Generation,
					p.Status, p.Generation)
				break
			}
			last[p.By] = p
		}
	}
}
