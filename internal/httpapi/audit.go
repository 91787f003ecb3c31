package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// Audits shows the result of the last audit of Redis, and makes a new pass on request.
type Audits interface {
	LastAudit(ctx context.Context) (Audit, error)
	// RunAudit makes a pass at once. job.ErrAmbiguous: the pass stopped half-way; what it found until then is
	// repaired.
	RunAudit(ctx context.Context) (Audit, error)
}

// Audit is the state of the system as tierq itself sees it.
type Audit struct {
	Report      *job.AuditReport     // of the last pass; nil = there was none
	Quarantined []job.QuarantinedJob // the oldest first, no more than a hundred
	Total       int64                // jobs in quarantine
	Checks      []AuditCheck         // of this process's stores, and of the cluster
}

// AuditCheck is the result of one check.
type AuditCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitzero"` // what to do about it
}

// auditMargin is the time that is left for writing the answer after a pass was cut short.
const auditMargin = 10 * time.Second

// lastAudit serves GET /admin/consistency.
func (a *api) lastAudit(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	audit, err := a.Audit.LastAudit(c.Request.Context())
	if err != nil {
		return err
	}
	return a.writeAudit(c, &audit)
}

// runAudit serves POST /admin/consistency. A pass is cut short after fifty seconds; the report says so, and the next
// pass does the rest.
func (a *api) runAudit(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := a.readBody(c)
	if err == nil && body != nil {
		err = noFields.read(body, &struct{}{})
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), bulk-auditMargin)
	defer cancel()
	audit, err := a.Audit.RunAudit(ctx)
	a.repaired(c, &audit, err)
	if err != nil {
		return inDoubt(err, "The pass stopped half-way. Its findings so far are repaired; send this again.")
	}
	return a.writeAudit(c, &audit)
}

// repaired writes a requested pass to the log of changes, with the totals of its findings.
func (a *api) repaired(c *gin.Context, audit *Audit, err error) {
	var found any
	if audit.Report != nil {
		found = &struct {
			Whole  bool               `json:"whole"`
			Totals []job.FindingTotal `json:"totals"`
		}{audit.Report.Whole, audit.Report.Totals}
	}
	a.changed(c, "consistency.repair", "", nil, found, err)
}

type reportBody struct {
	StartedAt string             `json:"startedAt"`
	Seconds   float64            `json:"seconds"`
	By        string             `json:"by"`
	Looks     int64              `json:"looks"`
	Whole     bool               `json:"whole"`
	Problem   string             `json:"problem"`
	Totals    []job.FindingTotal `json:"totals"`
	Findings  []findingBody      `json:"findings"`
}

type findingBody struct {
	JobID     *job.ID  `json:"jobId"`
	Partition *int     `json:"partition"`
	Result    job.Word `json:"result"`
	Kind      string   `json:"kind"`
	Detail    string   `json:"detail"`
}

type quarantinedBody struct {
	JobID     job.ID `json:"jobId"`
	Partition int    `json:"partition"`
	Since     string `json:"since"`
	There     bool   `json:"there"`
}

func (a *api) writeAudit(c *gin.Context, audit *Audit) error {
	body := struct {
		Report     *reportBody `json:"report"`
		Quarantine struct {
			Total int64             `json:"total"`
			Items []quarantinedBody `json:"items"`
		} `json:"quarantine"`
		Checks    []AuditCheck `json:"checks"`
		Timestamp string       `json:"timestamp"`
	}{Report: reportOf(audit.Report), Checks: audit.Checks, Timestamp: stamp(a.Now())}
	body.Quarantine.Total, body.Quarantine.Items = audit.Total, make([]quarantinedBody, len(audit.Quarantined))
	for i, q := range audit.Quarantined {
		body.Quarantine.Items[i] = quarantinedBody{q.ID, q.Partition, stamp(q.Since), q.There}
	}
	return write(c, http.StatusOK, &body)
}

func reportOf(r *job.AuditReport) *reportBody {
	if r == nil {
		return nil
	}
	body := &reportBody{
		StartedAt: stamp(r.StartedAt), Seconds: r.Seconds, By: r.By, Looks: r.Looks, Whole: r.Whole, Problem: r.Problem,
		Totals:   r.Totals,
		Findings: make([]findingBody, len(r.Findings)),
	}
	for i, f := range r.Findings {
		one := findingBody{Result: f.Result, Kind: f.Kind, Detail: f.Detail}
		if f.ID != "" {
			one.JobID = &f.ID
		}
		if f.Partition >= 0 {
			one.Partition = &f.Partition
		}
		body.Findings[i] = one
	}
	return body
}
