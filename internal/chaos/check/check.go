package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Violation is one broken promise: the invariant, the job or other thing that broke it, and what was seen.
type Violation struct{ Invariant, ID, What string }

func (v Violation) String() string { return v.Invariant + " " + v.ID + ": " + v.What }

// Counts are the sums of a run. Completed, Failed and Cancelled count generations: a requeued job has several.
type Counts struct {
	Accepted     int // submits that a client was told are accepted
	Refused      int
	Unknown      int // submits whose client never learned their outcome
	UnknownExist int // of these, how many made a job
	Requeued     int // generations beyond the first
	Withdrawn    int // refused jobs that were cancelled before any attempt, because the journal had no row for them
	Revived      int // withdrawn jobs that ran, because Redis lost the cancellation soon after
	Callbacks    int
	Completed    int
	Failed       int
	Cancelled    int
	Lost         int // accepted, and in no store
	Thawed       int // jobs that arrived late, when the frozen server that had their submits went on
	Forgotten    int // accepted and in no store, after Redis had lost its memory and without a journal
	Unheard      int // failures and releases that counted, and whose repeat by the server was refused
	Replaced     int // generations that showed an end, and then the first one, which Redis had lost before SQL had it
	// Doubled counts generations that ended twice: two outcomes in SQL, or one outcome and another end that a client
	// saw or a handler made.
	Doubled     int
	Executions  int
	Beyond      int // executions beyond the first of a generation
	Unexplained int // of these, how many no fault and no rule explains
	Occurred    int // jobs that schedules made, as SQL has noted them
	Missed      int // occurrences of schedules that became no job
	Judged      int // occurrences at times when the values of their schedule were certain
}

// Delays are how long something took, over all times it happened. Quiet counts the times without another fault in
// the way: only these have to keep the bound.
type Delays struct {
	N, Quiet int
	Max      time.Duration
	P95      time.Duration
}

// Fact is a line that a run adds to the table.
type Fact struct{ Name, Value string }

// Report is the verdict on a run.
type Report struct {
	Violations []Violation
	Counts     Counts
	// Explained counts executions beyond the first by their reason: the kind of a fault, or one of byHandler to
	// bySilence.
	Explained map[string]int
	Landed    map[string]int // faults by kind
	Kills     int
	Crashed   Delays        // from the death of a process until its jobs were reclaimed
	Stuck     Delays        // from the claim of an attempt until it was ended for taking too long
	Rest      time.Duration // from the end of the last fault until all was at rest; negative = never
	Facts     []Fact
}

// These reasons explain an execution beyond the first without any fault.
const (
	byHandler = "asked to fail"
	byMaxTime = "ran too long"
	// byLateClaim: the attempt had less time than its plan gives it. The time counts from the claim, and the claim's
	// answer was late because the machine was slow.
	byLateClaim = "a late claim"
	byReport    = "a worker's report"  // a worker of another program failed or released the job
	bySilence   = "a worker's silence" // such a worker's lease had ended
)

// An invariant checks the evidence and reports violations. If it needs an exception for a Redis that forgot, its
// own code makes it.
type invariant func(*book)

// invariants are those of docs and plan, by their names. CheckOrder has S7 and S8, which need a run without
// faults. CheckWitness has those that need a witness, such as S17 and S21.
var invariants = []invariant{
	tracked, oneOutcome, noInvention, boundedAttempts, fencing, redisAtRest, countersAtRest, terminalIsFinal,
	idempotentSubmit, keysExpire,
	explained, oneAtATime, takenForDead, timeOrder, pollsMonotone, requeuesTold, lastLook,
	oneHolder, lastInput, standIns, flowOrder, onTime, lineLimits, strictOrder, lineRates, linesHeld, pausesHold,
	batchRounds, batchesSeen,
	outsideCalls, outsideResults, outsideLeases,
	payloadIntegrity, storesAgree, sums, atRest, crashDetection, stuckDetection,
}

// Check checks a run against the invariants. It does not change the evidence.
func Check(e Evidence) Report {
	b := newBook(e)
	b.count()
	for _, holds := range invariants {
		holds(b)
	}
	slices.SortStableFunc(b.report.Violations, func(x, y Violation) int { return compareNames(x.Invariant, y.Invariant) })
	return b.report
}

func (b *book) say(invariant string, id any, format string, args ...any) {
	b.report.Violations = append(b.report.Violations, Violation{invariant, fmt.Sprint(id), fmt.Sprintf(format, args...)})
}

// endedTwice adds a generation to the doubled ones. A second call for the same generation does nothing.
func (b *book) endedTwice(id job.ID, generation int) {
	if l := (life{id, generation}); !b.twice[l] {
		b.twice[l] = true
		b.report.Counts.Doubled++
	}
}

// count fills the sums that need no judgement.
func (b *book) count() {
	c := &b.report.Counts
	for _, s := range b.submits {
		switch s.fate {
		case OK:
			c.Accepted++
		case Unknown:
			c.Unknown++
			if s.exists() {
				c.UnknownExist++
			}
		default:
			c.Refused++
		}
	}
	for _, j := range b.jobs {
		for i := range j.outcomes {
			o := &j.outcomes[i]
			switch o.Outcome {
			case job.Completed:
				c.Completed++
			case job.Failed:
				c.Failed++
			case job.Cancelled:
				c.Cancelled++
			}
		}
		if j.callback {
			c.Callbacks++
		}
		c.Requeued += max(0, j.generations()-1)
		c.Executions += len(j.runs)
	}
	for _, f := range b.Faults {
		b.report.Landed[f.Kind]++
		b.report.Kills += f.Kills
	}
	b.report.Rest = -1
	if !b.Rested.IsZero() {
		b.report.Rest = max(0, b.Rested.Sub(b.Quiet))
	}
}
