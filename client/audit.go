package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Audit is the server's report about its stores and itself.
type Audit struct {
	Report     *AuditReport `json:"report"` // of the last pass over Redis; nil = no pass yet
	Quarantine Quarantine   `json:"quarantine"`
	Checks     []AuditCheck `json:"checks"`
	Timestamp  time.Time    `json:"timestamp,omitzero"`

	Raw json.RawMessage `json:"-"` // the whole answer, for members that this version of the client does not know
}

// AuditReport is the result of one pass of the audit.
type AuditReport struct {
	StartedAt time.Time      `json:"startedAt"`
	Seconds   float64        `json:"seconds"`
	By        string         `json:"by"`      // the name of the process
	Looks     int64          `json:"looks"`   // jobs checked
	Whole     bool           `json:"whole"`   // false: the pass was cut short, or SQL did not answer
	Problem   string         `json:"problem"` // the reason why the pass is not whole
	Totals    []FindingTotal `json:"totals"`
	Findings  []Finding      `json:"findings"` // the first hundred
}

// FindingTotal is the number of findings of one kind.
type FindingTotal struct {
	Result string `json:"result"`
	Kind   string `json:"kind"`
	Count  int64  `json:"count"`
}

// Finding is one error that the audit found. Result is REPAIRED, REPORTED (for a person) or QUARANTINED.
type Finding struct {
	JobID     string `json:"jobId"` // "" = the finding is not about a single job
	Partition *int   `json:"partition"`
	Result    string `json:"result"`
	Kind      string `json:"kind"`
	Detail    string `json:"detail"`
}

// Quarantine lists the entries that the audit could not explain.
type Quarantine struct {
	Total int64            `json:"total"`
	Items []QuarantinedJob `json:"items"` // the oldest first, at most a hundred
}

// QuarantinedJob is one entry that the audit set aside, where no worker can claim it.
type QuarantinedJob struct {
	JobID     string    `json:"jobId"`
	Partition int       `json:"partition"`
	Since     time.Time `json:"since"`
	There     bool      `json:"there"` // the job, or other data under its key, still exists
}

// AuditCheck is one check of the server. Status is ok, warn or fail.
type AuditCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // the advice of what to do
}

// auditHold limits the time of one pass.
const auditHold = time.Minute

// Audit returns the findings of the last audit of Redis, the quarantine, and the server's checks.
func (c *Client) Audit(ctx context.Context) (Audit, error) {
	got, a, err := fetch[Audit](ctx, c, call{verb: "audit", method: http.MethodGet, path: "admin/consistency"})
	got.Raw = a.body
	return got, err
}

// RunAudit makes the server audit Redis now, repair what is safe to repair, and quarantine what cannot be
// explained. Jobs continue meanwhile. After ErrOutcomeUnknown the audit may have stopped half-way; a repeat does
// no harm.
func (c *Client) RunAudit(ctx context.Context) (Audit, error) {
	k := call{verb: "run audit", method: http.MethodPost, path: "admin/consistency", changes: true, hold: auditHold}
	got, a, err := fetch[Audit](ctx, c, k)
	got.Raw = a.body
	return got, err
}
