package httpapi

import (
	"cmp"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// newMemberBody reads the members of a submit that a job of a new batch has too. The batch is the new one, the call's
// Idempotency-Key covers all, and a unique key excludes a batch.
var newMemberBody = func() *submitBody {
	b := newSubmitBody(ours, map[string]member[asked]{"tier": (*asked).setTier, "traceId": (*asked).setTrace})
	delete(b.members, "unique")
	delete(b.members, "batch")
	return b
}()

// setJobs reads the first members of a new batch. The error names the first bad job, as jobs.<its place>.
func (b *newBatch) setJobs(v jsontext.Value) error {
	entries, err := splitArray(v)
	switch {
	case err != nil:
		return reason("must be a list of jobs")
	case len(entries) > job.MaxBatchJobs:
		return reason("has more than " + strconv.Itoa(job.MaxBatchJobs) +
			" jobs: make the batch open, and submit the others to it")
	}
	b.jobs = make([]asked, len(entries))
	for i, entry := range entries {
		if err := newMemberBody.decode(entry, &b.jobs[i]); err != nil {
			return about(strconv.Itoa(i), err)
		}
	}
	return nil
}

// batchJobs checks the first members of a new batch, each as a submit is checked.
func (a *api) batchJobs(c *gin.Context, b *newBatch, tier job.Tier) (jobs []job.Submission, err error) {
	if len(b.jobs) == 0 {
		return nil, nil
	}
	caller := callerOf(c)
	if err := a.spendBatch(c, len(b.jobs)); err != nil {
		return nil, err
	}
	jobs = make([]job.Submission, len(b.jobs))
	for i := range b.jobs {
		of := &b.jobs[i]
		plan, err := a.tierAsked(cmp.Or(of.tier, string(tier)))
		if err == nil {
			err = mayTier(c, plan.Tier)
		}
		if err == nil {
			jobs[i], err = a.submission(caller, of, plan, cmp.Or(of.trace, traceOf(c)))
		}
		if err != nil {
			return nil, about("jobs."+strconv.Itoa(i), err)
		}
	}
	return jobs, nil
}
