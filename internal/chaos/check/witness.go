package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Witness is what was seen beside the evidence: whose jobs they are, who else asked for them, who was called about
// their ends, and what looks at the living system found.
type Witness struct {
	Asked     map[string]Asked // by a submit's key; a submit that is not here asked for nothing
	Owners    []Owned          // of every outcome in SQL
	Strangers []Stranger
	Shut      int // answers of 401 or 403 to keys that open
	Calls     []Call
	Looks     []Look
	Passes    []Pass
	Stops     []Stop
	Plans     []PlanSeen
	Limits    []Limit
	Starts    []Start
}

// Asked is what a client asked for beside the job itself.
type Asked struct {
	Owner string // the id of its API key; "" = the servers are open
	Call  bool   // to be called when the job ends
}

// Owned is whose an outcome is, by SQL.
type Owned struct {
	ID         job.ID
	Generation int
	Owner      string
}

// Stranger is one answer to a client who asked for another's job.
type Stranger struct {
	ID     job.ID
	Method string
	At     time.Time
	HTTP   int // 0 = no answer
}

// Call is one callback that arrived.
type Call struct {
	ID         job.ID // of the job that ended
	Generation int
	Status     job.Status
	Attempt    int // of the CALLBACK job
	At         time.Time
	HTTP       int // what it was answered
}

// Look is one look at a partition of the living Redis, in one step of it.
type Look struct {
	From, To  time.Time
	Partition int
	Wrong     []string // what the audit of the snapshot found
	Over      []string // limits that it found exceeded
}

// Pass is one pass of the servers' own audit that came to an end.
type Pass struct {
	From, To time.Time
	Whole    bool
	Found    []Found
}

// Found is how many findings of one kind a pass had.
type Found struct {
	Result job.Word
	Kind   string
	Count  int
	Detail string // of one of them
}

// Stop is a server that was asked to stop, once.
type Stop struct {
	PID  string
	At   time.Time
	Took time.Duration // from the signal to its exit
	Code int
}

// CheckWitness holds a run to what the witness is about: S17, S21 (who asked to be called is called), the delays (S15),
// the exit of who was asked to stop (L7), S6 to S11 in the midst of the run, plans (S22), limits that stay (L8) and
// first starts (L9).
func CheckWitness(e Evidence, w Witness) []Violation {
	return slices.Concat(ownership(e, w), toldOfEnds(e, w), due(e), looked(e, w), audited(e, w), exits(e, w),
		plansKept(w), drainedUnderLimits(w), started(w))
}

// keys are the names of the submits that jobs came of, as far as the clients were told, the handlers wrote them down,
// or the trace id says.
func keys(e Evidence) map[job.ID]string {
	of := map[job.ID]string{}
	single := map[string]bool{}
	for i := range e.Ops {
		op := &e.Ops[i]
		if op.Kind != "submit" {
			continue
		}
		single[op.Key] = true
		if op.ID != "" && op.Fate != Fail {
			of[op.ID] = op.Key
		}
	}
	for i := range e.Runs {
		of[e.Runs[i].ID] = e.Runs[i].Key
	}
	for i := range e.Outcomes {
		// the trace id of a job that is submitted by itself is its key
		if o := &e.Outcomes[i]; of[o.ID] == "" && single[o.Trace] {
			of[o.ID] = o.Trace
		}
	}
	return of
}

// forgets says whether a fault that made Redis forget met a time.
func (e *Evidence) forgets(from, to time.Time) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool {
		return f.ForgetsAcked && !f.From.After(to) && (f.To.IsZero() || !f.To.Before(from))
	})
}
