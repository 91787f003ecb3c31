package httpapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// reportType is the job type that counts other jobs. A caller needs a key to submit such a job, and must be an
// operator to count all jobs.
const reportType = "REPORT"

// mayTier returns an error if the caller may not submit to the tier.
func mayTier(c *gin.Context, tier job.Tier) error {
	caller := callerOf(c)
	if caller.MayTier(tier) {
		return nil
	}
	return refusal(caller, "this key may submit to "+list(caller.Key.Tiers)+" only")
}

// maySubmitTo returns an error if the caller's key is bound to other queues.
func maySubmitTo(caller *job.Caller, queue string) error {
	if caller.MaySubmitTo(queue) {
		return nil
	}
	return refusal(caller, "this key may submit to the queues "+list(caller.Key.Queues)+" only")
}

// mayType returns an error if the caller may not submit jobs of the type.
func mayType(caller *job.Caller, typ string) error {
	switch {
	case !caller.MayType(typ) && anonymous(caller):
		return &problem{kind: forbidden, detail: "a caller without a key may submit jobs of type " +
			list(caller.Key.Types) + " only"}
	case !caller.MayType(typ):
		return &problem{kind: forbidden, detail: "this key may submit jobs of type " + list(caller.Key.Types) + " only"}
	case typ == reportType && anonymous(caller):
		return &problem{kind: forbidden, detail: "a " + reportType + " counts its submitter's jobs: submit it with a key"}
	}
	return nil
}

// mayCallBack returns an error if the caller may not give a job a callbackUrl. A callback is a job of the type
// CALLBACK, so the caller must be allowed to submit that type.
func mayCallBack(caller *job.Caller) error {
	switch {
	case caller.MayType(job.CallbackType):
		return nil
	case anonymous(caller):
		return &problem{kind: forbidden, detail: "a caller without a key may not set callbackUrl"}
	}
	return &problem{kind: forbidden, detail: "this key may not set callbackUrl: " + job.CallbackType +
		" is not one of its types, " + list(caller.Key.Types)}
}

func list[T ~string](names []T) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return strings.Join(all, ", ")
}

// overQuota turns job.ErrQuota into a 429 that names the quota and says when a job of this tier is likely to have
// ended. Any other error is returned as it is.
func (a *api) overQuota(err error, s *job.Submission) error {
	if !errors.Is(err, job.ErrQuota) {
		return err
	}
	who := "this key"
	if s.Owner == "" {
		who = "this address without a key"
	}
	return &problem{
		kind: rateLimited, detail: fmt.Sprintf(who+" has reached its quota of %d jobs that have not ended", s.Quota),
		retry: a.Submit.Hint(s.Tier),
	}
}
