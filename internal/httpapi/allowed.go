package httpapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// reportType is the job type that counts other jobs: its submitter must be known, and be an operator for it to count
// everybody's.
const reportType = "REPORT"

// mayTier refuses a caller who may not submit to a tier.
func mayTier(c *gin.Context, tier job.Tier) error {
	caller := callerOf(c)
	if caller.MayTier(tier) {
		return nil
	}
	return refusal(caller, "this key submits to "+list(caller.Key.Tiers)+" only")
}

// mayType refuses a caller who may not submit jobs of a type.
func mayType(caller *job.Caller, typ string) error {
	switch {
	case !caller.MayType(typ) && anonymous(caller):
		return &problem{kind: forbidden, detail: "without a key only jobs of type " + list(caller.Key.Types) +
			" are taken"}
	case !caller.MayType(typ):
		return &problem{kind: forbidden, detail: "this key submits jobs of type " + list(caller.Key.Types) + " only"}
	case typ == reportType && anonymous(caller):
		return &problem{kind: forbidden, detail: "a " + reportType + " counts its submitter's jobs: submit it with a key"}
	}
	return nil
}

// mayCallBack refuses a caller who may not have his jobs' ends told to an address: that is a job of the type CALLBACK.
func mayCallBack(caller *job.Caller) error {
	switch {
	case caller.MayType(job.CallbackType):
		return nil
	case anonymous(caller):
		return &problem{kind: forbidden, detail: "without a key no callbackUrl is taken"}
	}
	return &problem{kind: forbidden, detail: "this key takes no callbackUrl: " + job.CallbackType +
		" is not among its types, " + list(caller.Key.Types)}
}

func list[T ~string](names []T) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return strings.Join(all, ", ")
}

// overQuota says of a refusal for the key's quota what the quota is, and when a job of this tier is likely to have
// ended.
func (a *api) overQuota(err error, s *job.Submission) error {
	if !errors.Is(err, job.ErrQuota) {
		return err
	}
	who := "this key"
	if s.Owner == "" {
		who = "this address without a key"
	}
	return &problem{
		kind: rateLimited, detail: fmt.Sprintf(who+" has as many jobs under way as it may: %d", s.Quota),
		retry: a.Submit.Hint(s.Tier),
	}
}
