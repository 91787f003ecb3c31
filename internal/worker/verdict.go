package worker

import (
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// reportOf returns what a handler's return means. ended is why its context had ended, nil if it had not.
func reportOf(r ran, ended error, maxRun time.Duration) job.Report {
	if r.err == nil {
		return job.Report{Result: r.result}
	}
	report := handler.Report(r.err, r.verdict, ended)
	report.MaxRun = maxRun
	return report
}

// overdue returns the report about a handler that did not return at its maximum processing time.
func overdue(maxRun time.Duration) job.Report {
	return job.Report{Kind: job.DidFail, Overdue: true, MaxRun: maxRun, Error: "the handler did not return"}
}
