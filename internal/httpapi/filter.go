package httpapi

import (
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// statuses maps the words that a filter takes for a status: ours, and those of the other seeds. Seed 001 calls a
// job FAILED that failed and is tried again; here the word for that is RETRYING, and FAILED is what answers call
// FAILED.
var statuses = map[string]job.Status{
	"SCHEDULED": job.Scheduled, "HELD": job.Held,
	"WAITING": job.Waiting, "PENDING": job.Pending, "PROCESSING": job.Processing,
	"COMPLETED": job.Completed,
	"FAILED":    job.Failed,
	"CANCELLED": job.Cancelled, "EXPIRED": job.Expired,
	"SUCCESS": job.Completed, "DONE": job.Completed, "RUNNING": job.Processing, "DEAD": job.Failed,
}

// retrying is the filter for jobs that failed and wait for their next attempt. Their status is SCHEDULED.
const retrying = "RETRYING"

var causes = map[string]job.Cause{
	"HEARTBEAT_STOPPED": job.HeartbeatStopped, "MAX_TIME_EXCEEDED": job.MaxTimeExceeded, "HANDLER_ERROR": job.HandlerError,
	"PERMANENT_ERROR": job.PermanentError, "RESULT_TOO_LARGE": job.ResultTooLarge, "UNKNOWN_JOB_TYPE": job.UnknownJobType,
	"LATER_LIMIT": job.LaterLimit, "KILLED": job.Killed,
}

// listQuery is a filter and the page of its list.
type listQuery struct {
	job.Filter
	page
}

func (q *listQuery) setStatus(value string) error {
	if value == retrying {
		q.Status, q.Retrying = job.Scheduled, true
		return nil
	}
	status, known := statuses[value]
	if !known {
		return reason("is none of SCHEDULED, RETRYING, HELD, WAITING, PENDING, PROCESSING, COMPLETED, FAILED, " +
			"CANCELLED, EXPIRED")
	}
	q.Status = status
	return nil
}

func (q *listQuery) setTier(value string) (err error) {
	q.Tier, err = filterTier(value)
	return err
}

func (q *listQuery) setType(value string) (err error) {
	q.Type, err = filterType(value)
	return err
}

func (q *listQuery) setQueue(value string) (err error) {
	q.Queue, err = filterQueue(value)
	return err
}

func (q *listQuery) setCause(value string) (err error) {
	q.Cause, err = filterCause(value)
	return err
}

func (q *listQuery) setTrace(value string) error {
	if !plain(value) {
		return reason("is not a trace id: 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	q.TraceID = value
	return nil
}

func (q *listQuery) setFrom(value string) (err error) {
	q.From, err = queryMoment(value)
	return err
}

func (q *listQuery) setTo(value string) (err error) {
	q.To, err = queryMoment(value)
	return err
}

func (q *listQuery) setLimit(value string) error  { return q.page.setLimit(value) }
func (q *listQuery) setCursor(value string) error { return q.page.setCursor(value) }

// filterTier does not check that there is such a tier: the jobs of a removed tier are still there. The same holds
// for filterType and removed types.
func filterTier(value string) (job.Tier, error) {
	if tier := tierNamed(value); tier != "" {
		return tier, nil
	}
	return "", reason("is not a tier's name")
}

func filterType(value string) (string, error) {
	if !job.IsForeignTypeName(value) {
		return "", reason("is not a job type's name: a job type " + job.ForeignTypeNameRule)
	}
	return value, nil
}

// filterQueue does not check that there is such a queue: the ended jobs of a deleted queue are still there.
func filterQueue(value string) (string, error) {
	if !job.IsQueueName(value) {
		return "", reason("is not a queue's name")
	}
	return value, nil
}

func filterCause(value string) (job.Cause, error) {
	cause, known := causes[value]
	if !known {
		return "", reason("is not a cause of failure")
	}
	return cause, nil
}

// queryMoment is moment for a query, where an unescaped plus sign of the offset arrives as a space.
func queryMoment(value string) (time.Time, error) { return moment(strings.ReplaceAll(value, " ", "+")) }
