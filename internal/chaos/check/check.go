package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Violation is one broken promise: which invariant, of what, and what was seen.
type Violation struct{ Invariant, ID, What string }

func (v Violation) String() string { return v.Invariant + " " + v.ID + ": " + v.What }

// Counts is what a run came to. Of outcomes it counts generations: a requeued job has several.
type Counts struct {
	Accepted     int // jobs whose client was told so
	Refused      int
	Unknown      int // submits whose client never learned their fate
	UnknownExist int // of these, how many were taken
	Requeued     int // generations beyond the first
	Withdrawn    int // refused, and their job cancelled before anybody ran it, since the journal had no row for it
	Revived      int // the same, and Redis, taken back by a moment, lost the cancellation: it ran
	Callbacks    int
	Completed    int
	Failed       int
	Cancelled    int
	Lost         int // accepted, and without a trace
	Thawed       int // jobs that arrived late, when the frozen server that had their submits went on
	Forgotten    int // the same, but Redis had lost its memory and there was no journal
	Replaced     int // generations that showed an end, and then the first one, which Redis had lost before SQL had it
	// generations that ended twice: two outcomes in SQL, or an end that somebody saw, or made, beside the one there
	Doubled     int
	Executions  int
	Beyond      int // executions beyond the first of a generation
	Unexplained int // of these
}

// Delays are how long something took, over all the times it happened. Quiet ones had no other fault in their way: those
// are held to the bound.
type Delays struct {
	N, Quiet int
	Max      time.Duration
	P95      time.Duration
}

// Fact is a line that a run adds to its table.
type Fact struct{ Name, Value string }

// Report is the verdict.
type Report struct {
	Violations []Violation
	Counts     Counts
	// executions beyond the first, by what explains them: the kind of a fault, or one of the two below
	Explained map[string]int
	Landed    map[string]int // faults by kind
	Kills     int
	Crashed   Delays        // from the death of a process to the moment its jobs were taken back
	Stuck     Delays        // from the start of a run to the moment it was ended for taking too long
	Rest      time.Duration // from the end of the last fault until all was quiet; negative = never
	Facts     []Fact
}

// What explains an execution beyond the first without any fault.
const (
	byHandler = "asked to fail"
	byMaxTime = "ran too long"
	// byLateClaim: time counts from the claim, and its answer was late: the machine stood still, of itself.
	byLateClaim = "a late claim"
)

// An invariant looks at the evidence and says what it finds. Where it needs an exception for a Redis that forgot, it
// says so itself.
type invariant func(*book)

// The invariants of docs and plan, by their names. S7 and S8 need a quiet run: CheckOrder. S17 and S21 need a witness:
// CheckWitness.
var invariants = []invariant{
	tracked, oneOutcome, noInvention, boundedAttempts, fencing, redisAtRest, countersAtRest, terminalIsFinal,
	idempotentSubmit, keysExpire,
	explained, oneAtATime, takenForDead, timeOrder, pollsMonotone, requeuesTold, lastLook,
	payloadIntegrity, storesAgree, sums, atRest, crashDetection, stuckDetection,
}

// Check holds a run to the invariants. The evidence is not changed.
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

// endedTwice counts a generation among the doubled, once.
func (b *book) endedTwice(id job.ID, generation int) {
	if l := (life{id, generation}); !b.twice[l] {
		b.twice[l] = true
		b.report.Counts.Doubled++
	}
}

// count fills what needs no judgement.
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
