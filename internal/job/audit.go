package job

import "time"

// Suspected is a job that the audit looks at. Recorded is what SQL has of it, if it was asked.
type Suspected struct {
	ID        ID // as its keys spell it: what somebody wrote by hand may be no id
	Partition int
	Recorded  []Recorded
}

// Recorded is the outcome of one life of a job, as SQL has it.
type Recorded struct {
	Generation int
	Status     Status // COMPLETED, FAILED or CANCELLED
}

// Scanned is one part of the audit's walk over Redis.
type Scanned struct {
	Suspects []Suspected // to be looked at
	// what SQL is asked about: of jobs that wait it should have no outcome, of those that are gone one
	Ask   []ID
	Found []Finding // what needed no look
	Next  string    // where the walk goes on; "" = it is done
}

// Finding is one thing that an audit found wrong.
type Finding struct {
	ID        ID     `json:"jobId,omitzero"` // "" = it is about no single job
	Partition int    `json:"partition"`      // -1 = of none
	Result    Word   `json:"result"`         // REPAIRED, REPORTED (for a person) or QUARANTINED
	Kind      string `json:"kind"`           // one of the result's FindingKinds
	Detail    string `json:"detail,omitzero"`
}

// FindingKinds are the kinds of findings that each result comes with; docs/operations/TROUBLESHOOTING.md explains them.
var FindingKinds = map[Word][]string{
	Repaired: {
		"counter", "doorbell", "history", "lease", "lost", "misplaced", "missing", "overtaken", "payload", "retries", "score",
		"times", "ttl", "type",
	},
	Reported:    {"counter", "payload_lost", "unknown_key"},
	Quarantined: {"head", "no_job", "no_payload", "state", "type"},
}

// AuditReport is what one pass of the audit found, whichever process made it.
type AuditReport struct {
	StartedAt time.Time      `json:"startedAt"` // Redis' clock
	Seconds   float64        `json:"seconds"`   // how long it took
	By        string         `json:"by"`        // the process
	Looks     int64          `json:"looks"`     // at jobs; one that moved may have been looked at twice
	Whole     bool           `json:"whole"`     // false: it was cut short, or a part was left out
	Problem   string         `json:"problem,omitzero"`
	Totals    []FindingTotal `json:"totals"`   // of all findings
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

// QuarantinedJob is an entry that was set aside: no worker comes across it, a person should.
type QuarantinedJob struct {
	ID        ID        `json:"jobId"`
	Partition int       `json:"partition"`
	Since     time.Time `json:"since"` // Redis' clock
	There     bool      `json:"there"` // the job's hash, or what is in its place, still is
}
