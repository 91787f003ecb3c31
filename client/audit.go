package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Audit is how the server finds its stores and itself.
type Audit struct {
	Report     *AuditReport `json:"report"` // of the last pass over Redis; nil = there was none
	Quarantine Quarantine   `json:"quarantine"`
	Checks     []AuditCheck `json:"checks"`
	Timestamp  time.Time    `json:"timestamp,omitzero"`

	Raw json.RawMessage `json:"-"` // the answer as it came, for what this version of the client does not know
}

// AuditReport is what one pass of the audit found.
type AuditReport struct {
	StartedAt time.Time      `json:"startedAt"`
	Seconds   float64        `json:"seconds"`
	By        string         `json:"by"`      // the process
	Looks     int64          `json:"looks"`   // at jobs
	Whole     bool           `json:"whole"`   // false: it was cut short, or SQL did not answer
	Problem   string         `json:"problem"` // why it is not whole
	Totals    []FindingTotal `json:"totals"`
	Findings  []Finding      `json:"findings"` // the first hundred
}

// FindingTotal is how many findings of one kind there were.
type FindingTotal struct {
	Result string `json:"result"`
	Kind   string `json:"kind"`
	Count  int64  `json:"count"`
}

// Finding is one thing that was wrong. Result is REPAIRED, REPORTED (for a person) or QUARANTINED.
type Finding struct {
	JobID     string `json:"jobId"` // "" = it is about no single job
	Partition *int   `json:"partition"`
	Result    string `json:"result"`
	Kind      string `json:"kind"`
	Detail    string `json:"detail"`
}

// Quarantine is what nobody could explain.
type Quarantine struct {
	Total int64            `json:"total"`
	Items []QuarantinedJob `json:"items"` // the oldest first, at most a hundred
}

// QuarantinedJob is one entry that was set aside: no worker comes across it.
type QuarantinedJob struct {
	JobID     string    `json:"jobId"`
	Partition int       `json:"partition"`
	Since     time.Time `json:"since"`
	There     bool      `json:"there"` // there still is a job, or what is in its place
}

// AuditCheck is one thing that the server looked at. Status is ok, warn or fail.
type AuditCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do about it
}

// auditHold is how long a pass may take.
const auditHold = time.Minute

// Audit asks what the audit of Redis found last, what is in quarantine, and how the server's checks are.
func (c *Client) Audit(ctx context.Context) (Audit, error) {
	got, a, err := fetch[Audit](ctx, c, call{verb: "audit", method: http.MethodGet, path: "admin/consistency"})
	got.Raw = a.body
	return got, err
}

// RunAudit makes the server go over Redis at once, put right what is safe, and set aside what nobody can explain. Jobs
// go on meanwhile. ErrOutcomeUnknown: it may have stopped half-way; doing it again does no harm.
func (c *Client) RunAudit(ctx context.Context) (Audit, error) {
	k := call{verb: "run audit", method: http.MethodPost, path: "admin/consistency", changes: true, hold: auditHold}
	got, a, err := fetch[Audit](ctx, c, k)
	got.Raw = a.body
	return got, err
}
