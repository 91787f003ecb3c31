package check

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// replaced makes polls show another end of a job than SQL has, and then SQL's end: once to another poller, and
// once to the same one.
func (e *Evidence) replaced(n int, end job.Status, when float64) {
	stands := e.outcome(n, 1).Outcome
	e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(n) })
	e.Polls = append(e.Polls, seen("c", n, 1, end, when), seen("d", n, 1, stands, when+2),
		seen("c", n, 1, stands, when+2.1))
}

// runsAgain adds a journal and a Redis that loses the cancelled job's end before SQL has it. Redis had decided
// that end at 3.5 s. The job runs from 4 s to 4.2 s and is shown as COMPLETED, and then SQL has the first end.
func (e *Evidence) runsAgain(from, to float64) {
	e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(from, to))
	e.Runs = append(e.Runs, ran(cancelled, 1, 1, "11", 4, 4.2, "result"))
	e.replaced(cancelled, job.Completed, 4.3)
}

// endsUnrun adds a journal and a Redis that forgets for a tenth of a second. The plain job completed at 1.5 s. At
// when it is shown with another end, without another run, and then SQL has the first end.
func (e *Evidence) endsUnrun(end job.Status, from, when float64) {
	e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(from, from+0.1))
	e.replaced(plain, end, when)
}

// cancel adds a cancel of the plain job that was answered with 200.
func (e *Evidence) cancel(sent float64) {
	op := Op{Kind: "cancel", ID: id(plain), Fate: OK, Status: 200, Sent: at(sent), Answered: at(sent + 0.1)}
	e.Ops = append(e.Ops, op)
}

// seedsOfFirstEnd are ends that replace each other without the excuse that Redis lost the first one.
var seedsOfFirstEnd = []seed{
	{"S12 S16", "an end was replaced by SQL's, and Redis had forgotten before both", func(e *Evidence) {
		e.runsAgain(3.1, 3.2)
	}},
	{"S12 S16", "an end was replaced by SQL's, and nothing says when that was decided", func(e *Evidence) {
		e.runsAgain(3.1, 3.2)
		e.outcome(cancelled, 1).EndedAt = time.Time{}
	}},
	{"S5 S12 S16", "an end was replaced by SQL's, and Redis forgot after both", func(e *Evidence) {
		e.runsAgain(4.21, 4.25)
	}},
	{"S12 S16", "an end was replaced by one that SQL does not have either", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		for i := range e.Polls {
			if p := &e.Polls[i]; p.ID == id(cancelled) && p.Status == job.Cancelled {
				p.Status = job.Failed
			}
		}
	}},
	{"S12 S16", "an end was replaced by SQL's, and the server keeps the ends that it tells", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		e.Faults[len(e.Faults)-1].Keeps.Ends = true
	}},
	{"S12 S16", "an end was replaced by SQL's, and the job did not run again", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		e.Runs = without(e.Runs, func(r *Run) bool { return r.ID == id(cancelled) })
	}},
	{"S12 S16", "an end was replaced by SQL's, and the job had run before SQL's end", func(e *Evidence) {
		e.runsAgain(3.3, 3.6)
		r := &e.Runs[len(e.Runs)-1]
		r.Began, r.Ended = at(3.4), at(3.45)
	}},
	{"S12 S16", "an end was replaced by SQL's, and the job ran again without that end", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		e.Runs[len(e.Runs)-1].Result = "other"
	}},
	{"S12 S16", "a success was replaced by SQL's end before its handler was done", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		e.Runs[len(e.Runs)-1].Ended = at(4.4)
	}},
	{"S12 S16", "an end was replaced by that of an earlier generation, which Redis lost", func(e *Evidence) {
		e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(5, 5.1))
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(dead) })
		e.Polls = append(e.Polls, seen("c", dead, 2, job.Completed, 11.5), seen("d", dead, 2, job.Failed, 13),
			seen("c", dead, 2, job.Failed, 13.1))
	}},
	{"S12 S16", "a failure was replaced by SQL's end, and the job ran again later", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		e.replaced(cancelled, job.Failed, 4.3)
		e.Runs[len(e.Runs)-1] = ran(cancelled, 1, 1, "11", 8, 8.2, "")
	}},
	{"S12 S16", "a failure was replaced by SQL's end, and the job ran again with success", func(e *Evidence) {
		e.runsAgain(3.6, 3.7)
		e.replaced(cancelled, job.Failed, 4.3)
	}},
	{"S12 S16", "a cancel was replaced by SQL's end, and nobody had asked for it", func(e *Evidence) {
		e.endsUnrun(job.Cancelled, 1.6, 2.5)
	}},
	{"S12 S16", "a cancel was replaced by SQL's end, and had been refused", func(e *Evidence) {
		e.endsUnrun(job.Cancelled, 1.6, 2.5)
		e.Ops = append(e.Ops, Op{Kind: "cancel", ID: id(plain), Fate: Fail, Status: 409, Sent: at(2), Answered: at(2.1)})
	}},
	{"S12 S16", "a cancel was replaced by SQL's end, and was asked for later", func(e *Evidence) {
		e.endsUnrun(job.Cancelled, 1.6, 2.5)
		e.cancel(6)
	}},
	{"S12 S16", "a cancel was replaced by SQL's end, and Redis had forgotten before both", func(e *Evidence) {
		e.endsUnrun(job.Cancelled, 1.2, 2.5)
		e.cancel(2)
	}},
	{"S12 S16", "a failure was replaced by SQL's end, and a retry was left", func(e *Evidence) {
		e.endsUnrun(job.Failed, 1.6, 4)
	}},
	{"S12 S16", "a failure was replaced by SQL's end, too soon for two looks of a watch", func(e *Evidence) {
		e.endsUnrun(job.Failed, 1.6, 3.5)
		e.outcome(plain, 1).MaxRetries = 0
	}},
	{"S12 S16", "a failure was replaced by SQL's end, and Redis had forgotten before both", func(e *Evidence) {
		e.endsUnrun(job.Failed, 1.2, 4)
		e.outcome(plain, 1).MaxRetries = 0
	}},
	{"S12 S16", "a failure was replaced by SQL's end, which no attempt made", func(e *Evidence) {
		e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(3.6, 3.7))
		e.outcome(cancelled, 1).MaxRetries = 0
		e.replaced(cancelled, job.Failed, 6.5)
	}},
}

// Redis may lose an end before SQL has it and show another end. SQL's first outcome then stands, and that is no
// violation.
func TestFirstEnd(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*Evidence){
		"a cancelled job ran again": func(e *Evidence) { e.runsAgain(3.6, 3.7) },
		"a failed job ran again": func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(3.6, 3.7))
			o := e.outcome(cancelled, 1)
			*o = ended(cancelled, 1, 1, job.Failed, 3, 3.5)
			e.Ops = without(e.Ops, func(op *Op) bool { return op.Kind == "cancel" })
			e.submit(cancelled).Fails, o.RetryCount = 1, 1
			e.Tables = nil
			e.Runs = append(e.Runs, ran(cancelled, 1, 1, "10", 3.2, 3.4, ""), ran(cancelled, 1, 2, "11", 4, 4.2, "result"))
			e.replaced(cancelled, job.Completed, 4.3)
		},
		"a completed job was cancelled": func(e *Evidence) {
			e.endsUnrun(job.Cancelled, 1.6, 2.5)
			e.cancel(2)
		},
		"a completed job's last lease was back": func(e *Evidence) {
			e.endsUnrun(job.Failed, 1.6, 4)
			e.outcome(plain, 1).MaxRetries = 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			plant(&e)
			r := Check(e)
			if len(r.Violations) > 0 || r.Counts.Replaced != 1 || r.Counts.Doubled != 0 {
				t.Errorf("%d ends replaced, %d doubled, %v", r.Counts.Replaced, r.Counts.Doubled, r.Violations)
			}
		})
	}
}
