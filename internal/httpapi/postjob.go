package httpapi

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// postJob serves POST /jobs: a submit whose body names the tier.
func (a *api) postJob(c *gin.Context) error {
	return a.post(c, jobsBody, "/jobs/", func(r receipt) any {
		created := r.created
		if created.IsZero() {
			created = a.Clock()
		}
		return &struct {
			JobID     job.ID     `json:"jobId"`
			Status    job.Status `json:"status"`
			CreatedAt string     `json:"createdAt"`
			TraceID   string     `json:"traceId"`
			Dedup     bool       `json:"deduplicated,omitzero"`
			Replaced  bool       `json:"replaced,omitzero"`
		}{r.ID, r.status, stamp(created), r.trace, r.Deduplicated, r.Replaced}
	})
}

// apiAccepted is the 202 of POST /api/jobs. MaxRetries and Warnings are set if the job has fewer retries than its
// caller asked for.
type apiAccepted struct {
	JobID      job.ID       `json:"jobId"`
	TraceID    string       `json:"traceId"`
	MaxRetries *int         `json:"maxRetries,omitempty"`
	Warnings   []fieldError `json:"warnings,omitempty"`
	Dedup      bool         `json:"deduplicated,omitzero"`
	Replaced   bool         `json:"replaced,omitzero"`
}

// postAPIJob serves POST /api/jobs, JobWeaver's address. JobWeaver's clients do not choose a tier, and so cannot know
// its bound on retries: a higher number is lowered to the bound, and the answer says so.
func (a *api) postAPIJob(c *gin.Context) error {
	return a.post(c, apiBody, "/api/jobs/", func(r receipt) any {
		body := &apiAccepted{JobID: r.ID, TraceID: r.trace, Dedup: r.Deduplicated, Replaced: r.Replaced}
		if asked := visitOf(c).asked; asked.maxRetries > r.retries && r.retries >= 0 {
			reason := fmt.Sprintf("is %d, more than the tier allows: the job has %d", asked.maxRetries, r.retries)
			body.MaxRetries, body.Warnings = &r.retries, []fieldError{{asked.spelling.maxRetries, reason}}
		}
		return body
	})
}

func (a *api) post(c *gin.Context, shape *submitBody, path string, answer func(r receipt) any) error {
	s, err := a.asks(c, shape, func(asked *asked) (job.Plan, error) {
		if asked.typ == "" {
			return job.Plan{}, invalid(asked.spelling.typ, "is missing")
		}
		plan, err := a.tierAsked(asked.tier)
		if err == nil {
			err = mayTier(c, plan.Tier)
		}
		return plan, err
	})
	if err != nil {
		return err
	}
	r, err := a.send(c, s)
	if err != nil {
		return err
	}
	receiptHeaders(c, r, path)
	return write(c, http.StatusAccepted, answer(r))
}

// tierAsked returns the plan of the tier that a body names; UNPAID's if the body names none.
func (a *api) tierAsked(name string) (job.Plan, error) {
	if name == "" {
		name = string(job.Unpaid)
	}
	if tier := tierNamed(name); tier != "" {
		if plan, ok := a.Plans.Plan(tier); ok {
			return plan, nil
		}
	}
	return job.Plan{}, a.noTier(fieldError{"tier", "there is no such tier"})
}
