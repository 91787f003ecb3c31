package job

import "time"

// Suspected is a job that the audit must look at. Recorded is what SQL has of the job, if SQL was asked.
type Suspected struct {
	ID        ID // as spelled in its keys, which may be no valid id after an edit by hand
	Partition int
	Recorded  []Recorded
	MetIn     string // the queue in which the walk met the job; "" = elsewhere
}

// Recorded is the outcome of one generation of a job, as SQL has it.
type Recorded struct {
	Generation int
	Status     Status // COMPLETED, FAILED, CANCELLED or EXPIRED
}

// Scanned is one part of the audit's walk over Redis.
type Scanned struct {
	Suspects []Suspected // the jobs to look at
	// the ids to ask SQL about: waiting jobs, which should have no outcome, and missing jobs, which should have one
	Ask   []ID
	Found []Finding // findings that need no look at a job
	Next  string    // where the walk continues; "" = the walk is done
}

// Finding is one fault that an audit found.
type Finding struct {
	ID        ID     `json:"jobId,omitzero"` // "" = the finding is about no single job
	Partition int    `json:"partition"`      // -1 = no partition
	Result    Word   `json:"result"`         // REPAIRED, REPORTED (for a person) or QUARANTINED
	Kind      string `json:"kind"`           // one of the result's FindingKinds
	Detail    string `json:"detail,omitzero"`
}

// FindingKinds are the kinds of findings per result; docs/operations/TROUBLESHOOTING.md explains them.
var FindingKinds = map[Word][]string{
	Repaired: {
		"batch", "counter", "doorbell", "flow", "history", "lease", "leftover", "line", "lost", "misplaced", "missing",
		"overtaken",
		"payload",
		"retries", "score", "times", "ttl", "type", "unacked", "unique",
	},
	Reported:    {"counter", "payload_lost", "unknown_key"},
	Quarantined: {"head", "no_job", "type"},
}

// AuditReport is the result of one pass of the audit, made by any process.
type AuditReport struct {
	StartedAt time.Time      `json:"startedAt"` // Redis' clock
	Seconds   float64        `json:"seconds"`   // how long the pass took
	By        string         `json:"by"`        // the process that made the pass
	Looks     int64          `json:"looks"`     // looks at jobs; a job that moved may be counted twice
	Whole     bool           `json:"whole"`     // false: the pass was cut short, or a part was left out
	Problem   string         `json:"problem,omitzero"`
	Totals    []FindingTotal `json:"totals"`   // counts of all findings
	Findings  []Finding      `json:"findings"` // the first MaxFindings
}

// FindingTotal is how many findings of one kind a pass had.
type FindingTotal struct {
	Result Word   `json:"result"`
	Kind   string `json:"kind"`
	Count  int64  `json:"count"`
}

// MaxFindings is how many findings a report lists.
const MaxFindings = 100

// QuarantinedJob is an entry that was set aside: workers do not see it, and a person should look at it.
type QuarantinedJob struct {
	ID        ID        `json:"jobId"`
	Partition int       `json:"partition"`
	Since     time.Time `json:"since"` // Redis' clock
	There     bool      `json:"there"` // the job's record, or another value under its key, still exists
}
