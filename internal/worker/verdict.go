package worker

import (
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// reportOf returns what a handler's return means. ended is why its context had ended, nil if it had not.
func reportOf(r ran, ended error) job.Report {
	if r.err == nil {
		return job.Report{Result: r.result}
	}
	return handler.Report(r.err, r.verdict, ended)
}

// overdue returns the report about a handler that did not return at its maximum processing time.
func overdue() job.Report {
	text := handler.ErrMaxTime.Error() + "; the handler did not return"
	return job.Report{Kind: job.DidFail, Overdue: true, Error: text}
}
