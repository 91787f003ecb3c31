package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Witness is what was seen beside the evidence: the owners of the jobs, requests with another caller's key,
// callbacks, audits of the running system, stops, plans, limits and first starts.
type Witness struct {
	Asked     map[string]Asked // by a submit's key or a batch's name; without an entry nothing was asked for
	Owners    []Owned          // of every outcome in SQL
	Strangers []Stranger
	Shut      int // answers of 401 or 403 to valid keys
	Calls     []Call
	Rounds    []RoundCall
	Looks     []Look
	Passes    []Pass
	Stops     []Stop
	Plans     []PlanSeen
	Limits    []Limit
	Starts    []Start
}

// Asked has the options of a submit, or of the request that made a batch, beside the job itself.
type Asked struct {
	Owner string // the id of its API key; "" = the servers are open
	Call  bool   // a callback when the job, or a round of the batch, ends
}

// Owned is the owner of an outcome in SQL.
type Owned struct {
	ID         job.ID
	Generation int
	Owner      string
}

// Stranger is the answer to a request for a job with another caller's key.
type Stranger struct {
	ID     job.ID
	Method string
	At     time.Time
	HTTP   int // 0 = no answer
}

// Call is one callback that arrived.
type Call struct {
	ID         job.ID // the job that ended
	Generation int
	Status     job.Status
	Attempt    int // of the CALLBACK job
	At         time.Time
	HTTP       int // the receiver's answer
}

// Look is one audit of a partition of the running Redis, from a snapshot that was read in one step.
type Look struct {
	From, To  time.Time
	Partition int
	Wrong     []string // what the audit of the snapshot found
	Over      []string // limits that the partition exceeded
}

// Pass is one complete answer to a request for a pass of the servers' own audit.
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

// Stop is the end of a server that was asked to stop.
type Stop struct {
	PID  string
	At   time.Time
	Took time.Duration // from the signal to the exit
	Code int
}

// CheckWitness checks a run against the invariants that need a witness: owners (S17), callbacks of jobs (S21) and of
// batches (S30), delays (S15), the exit of a server that was asked to stop (L7), S6 to S11 while the run goes on, plans
// (S22), limits that stay (L8) and first starts (L9).
func CheckWitness(e Evidence, w Witness) []Violation {
	return slices.Concat(ownership(e, w), toldOfEnds(e, w), toldOfRounds(e, w), due(e), looked(e, w), audited(e, w),
		exits(e, w), plansKept(w), drainedUnderLimits(w), started(w))
}

// keys returns for each job the key of the submit that made it, if the client was told the id, a handler recorded
// the key, or the trace id is a submit's key.
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
		// a job that is submitted by itself has its key as its trace id
		if o := &e.Outcomes[i]; of[o.ID] == "" && single[o.Trace] {
			of[o.ID] = o.Trace
		}
	}
	return of
}

// forgets says whether a fault that made Redis forget overlaps a time.
func (e *Evidence) forgets(from, to time.Time) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool {
		return f.ForgetsAcked && !f.From.After(to) && (f.To.IsZero() || !f.To.Before(from))
	})
}
