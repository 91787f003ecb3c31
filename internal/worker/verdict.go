package worker

import (
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// reportOf returns what a handler's return means. ended is why its context had ended, nil if it had not. A handler that
// this process interrupted costs its job nothing.
func reportOf(r ran, ended error) job.Report {
	switch {
	case r.err == nil:
		return job.Report{Result: r.result}
	case r.verdict.Later > 0:
		return job.Report{Kind: job.GaveBack, Delay: r.verdict.Later, Reason: r.verdict.Reason}
	case errors.Is(ended, handler.ErrLeaseLost), errors.Is(ended, handler.ErrDraining):
		return job.Report{Kind: job.GaveBack}
	}
	return job.Report{
		Kind: job.DidFail, Error: fmt.Sprintf("%v", r.err), // fmt contains the panic of an Error method
		Permanent: r.verdict.Permanent, RetryAfter: r.verdict.RetryAfter,
		Overdue: errors.Is(ended, handler.ErrMaxTime), UnknownType: errors.Is(r.err, job.ErrUnknownType),
	}
}

// overdue returns the report about a handler that did not return at its maximum processing time.
func overdue() job.Report {
	text := handler.ErrMaxTime.Error() + "; the handler did not return"
	return job.Report{Kind: job.DidFail, Overdue: true, Error: text}
}
