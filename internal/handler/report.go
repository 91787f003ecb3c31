package handler

import (
	"errors"

	"github.com/tierq/tierq/internal/job"
)

// Report returns what a handler's error means for its job; the error is contained, see Contain, and v is its verdict.
// ended is why the handler's context had ended, nil if it had not. A handler that this process interrupted costs its
// job nothing.
func Report(err error, v Verdict, ended error) job.Report {
	switch {
	case v.Later > 0:
		return job.Report{Kind: job.GaveBack, Delay: v.Later, Reason: v.Reason}
	case errors.Is(ended, ErrLeaseLost), errors.Is(ended, ErrDraining):
		return job.Report{Kind: job.GaveBack}
	}
	return job.Report{
		Kind: job.DidFail, Error: err.Error(),
		Permanent: v.Permanent, RetryAfter: v.RetryAfter,
		Overdue: errors.Is(ended, ErrMaxTime), UnknownType: errors.Is(err, job.ErrUnknownType),
	}
}
