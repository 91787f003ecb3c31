package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// tracked is S1: every accepted job is in a store, and every accepted requeue has made its generation.
func tracked(b *book) {
	for _, s := range b.submits {
		if s.fate == OK && len(s.named) == 0 && !s.Unique.StandIn { // pushed by a Faktory client, which is told no id
			switch {
			case !b.journaled() && b.forgot(s.Sent, b.last()):
				b.report.Counts.Forgotten++
			default:
				b.report.Counts.Lost++
				b.say("S1", s.Key, "the push was accepted, and lost: nobody had a job with its key")
			}
		}
		for _, id := range s.named {
			j := b.jobs[id]
			switch {
			case len(j.outcomes) > 0 || j.live != "":
			case !b.journaled() && b.forgot(s.Sent, b.last()):
				b.report.Counts.Forgotten++
			case slices.Contains(b.Journal, id):
				b.report.Counts.Lost++
				b.say("S1", id, "accepted %s, and only the journal has it", s.Key)
			default:
				b.report.Counts.Lost++
				b.say("S1", id, "accepted %s, and lost: no store has it; it ran %d times", s.Key, len(j.runs))
			}
		}
	}
	for _, id := range b.order {
		j := b.jobs[id]
		promised, _ := requests(j.requeues)
		if got := max(j.generations()-1, 0); promised > got && (b.journaled() || !b.forgot(j.requeues[0].Sent, b.last())) {
			b.say("S1", id, "%d new lives were promised, it had %d", promised, got)
		}
	}
}

// requests counts the requeues of a job by their Idempotency-Keys: how many were accepted, and how many may have
// been executed at most.
func requests(ops []*Op) (promised, possible int) {
	fates := map[string]Fate{}
	nameless := 0
	for _, op := range ops {
		switch {
		case op.Fate == Fail:
		case op.Once == "":
			nameless++
			if op.Fate == OK {
				promised++
			}
		case fates[op.Once] != OK:
			fates[op.Once] = op.Fate
		}
	}
	for _, fate := range fates {
		if fate == OK {
			promised++
		}
	}
	return promised, nameless + len(fates)
}

// oneOutcome is S2: at rest every generation of every job has one outcome, and one row that agrees with it. A
// generation that still lives in Redis has no outcome yet; L1 reports it.
func oneOutcome(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		for i := range j.outcomes {
			o := &j.outcomes[i]
			results, dead := 0, 0
			switch o.Outcome {
			case job.Completed:
				results = 1
			case job.Failed:
				dead = 1
			}
			if rows := o.Results + o.Dead; rows > 1 || rows == 1 && results+dead == 0 ||
				i > 0 && j.outcomes[i-1].Generation == o.Generation {
				b.endedTwice(id, o.Generation)
				b.say("S2", id, "generation %d has more than one outcome: %s, %d results, %d dead letters", o.Generation, o.Outcome,
					o.Results, o.Dead)
			} else if o.Results != results || o.Dead != dead {
				b.say("S2", id, "generation %d is %s with %d results and %d dead letters", o.Generation, o.Outcome, o.Results,
					o.Dead)
			}
		}
		if !j.exists() || len(j.outcomes) == 0 && j.live == "" && j.accepted() {
			continue // no store or handler saw the job, or it is lost, which S1 reports
		}
		promised, _ := requests(j.requeues)
		for g := 1; g <= j.generations(); g++ {
			if j.outcome(g) != nil || j.lives() && g == j.liveGeneration {
				continue
			}
			if owed := j.accepted() && g <= 1+promised; b.forgotWithin(j) && (!owed || !b.journaled()) {
				continue // no client was promised it, or Redis may forget without a journal
			}
			b.say("S2", id, "generation %d has no outcome; it ran %d times, Redis has %q", g, len(j.of(g)), b.Live[id])
		}
	}
}

// revived says whether the design explains that a refused job ran: the journal could not take it, so it was
// withdrawn, and then Redis lost the withdrawal but not the submit.
func (b *book) revived(j *entry) bool {
	s := j.submit
	return b.hasRow(j) && s.Code == "SYSTEM_UNHEALTHY" && len(j.runs) == 1 && b.forgot(s.Answered, j.runs[0].Began)
}

// accepted says whether a client was told that the job is accepted.
func (j *entry) accepted() bool { return j.submit != nil && slices.Contains(j.submit.named, j.id) }

// noInvention is S3: every job was submitted, at most one job per submit, and its submit was not refused.
func noInvention(b *book) {
	nameless := map[string][]*entry{} // by trace id: jobs of which only that is known
	for _, id := range b.order {
		j := b.jobs[id]
		s := j.submit
		_, possible := requests(j.requeues)
		switch {
		case !j.exists() || j.callback:
		case s == nil && len(j.runs) > 0:
			b.say("S3", id, "ran under the key %q, which nobody submitted", j.runs[0].Key)
		case s == nil:
			nameless[j.trace] = append(nameless[j.trace], j)
		case s.fate == Fail:
			switch {
			case b.withdrawn(j):
				b.report.Counts.Withdrawn++
			case b.revived(j):
				b.report.Counts.Revived++
			default:
				b.say("S3", id, "its submit %s was refused (%d %s), and it ran %d times", s.Key, s.Status, s.Code, len(j.runs))
			}
		case s.Kind == "submit" && s.Once == "" && s.Unique.Key == "" && len(b.kept(s)) > 1:
			b.say("S3", id, "one submit %s, %d jobs", s.Key, len(s.jobs))
		case j.generations()-1 > possible:
			b.say("S3", id, "generation %d, after %d requeues", j.generations(), possible)
		}
	}
	for _, id := range b.order {
		if j := b.jobs[id]; j.submit == nil && slices.Contains(nameless[j.trace], j) {
			b.judgeNameless(j.trace, nameless[j.trace])
			delete(nameless, j.trace)
		}
	}
}

// withdrawn says whether a job was refused in the end: the journal could not take it, so it was cancelled before
// any attempt.
func (b *book) withdrawn(j *entry) bool {
	return b.hasRow(j) && len(j.runs) == 0 && len(j.outcomes) == 1 && j.outcomes[0].Outcome == job.Cancelled &&
		!j.accepted() && len(j.cancels) == 0
}

// kept returns the jobs of a submit without the withdrawn ones.
func (b *book) kept(s *submit) []job.ID {
	return slices.DeleteFunc(slices.Clone(s.jobs), func(id job.ID) bool { return b.withdrawn(b.jobs[id]) })
}

// judgeNameless checks the jobs that share a trace id with several submits (a batch), or that have no known trace
// id. Each may be a job whose client was never told, or a withdrawn one.
func (b *book) judgeNameless(trace string, jobs []*entry) {
	untold, refused := 0, 0
	for _, s := range b.byTrace[trace] {
		switch {
		case s.fate == Unknown && !s.exists():
			untold++
		case s.fate == Fail:
			refused++
		}
	}
	for _, j := range jobs {
		switch {
		case untold > 0:
			untold--
			b.report.Counts.UnknownExist++
		case refused > 0 && b.withdrawn(j):
			refused--
			b.report.Counts.Withdrawn++
		default:
			b.say("S3", j.id, "nobody submitted it; its trace id is %q", trace)
		}
	}
}

// unanswered is how long after its client gave up a server may still execute a submit.
const unanswered = 30 * time.Second

// idempotentSubmit is S13: one Idempotency-Key makes one job. There are two excuses. If Redis forgot the key of a
// submit whose client was not told an id, a repeat makes a new job; the loss has to come before the last repeat
// was executed. A server that was frozen until the key had expired makes a second job of a request that
// got no answer.
func idempotentSubmit(b *book) {
	for _, s := range b.submits {
		if s.Once == "" {
			continue
		}
		all := slices.Concat(s.named, b.kept(s))
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > 1 && (len(s.named) > 1 ||
			!b.forgot(s.Sent, s.answered().Add(unanswered)) && !b.ranOut(s, all)) {
			b.say("S13", s.Key, "the Idempotency-Key %s stands for the jobs %v", s.Once, all)
		}
	}
}

// answered returns when the last of the submit's requests was answered or given up. A request without such a time
// counts as of when it was sent.
func (s *submit) answered() (last time.Time) {
	for _, op := range s.ops {
		for _, t := range []time.Time{op.Sent, op.Answered} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last
}
