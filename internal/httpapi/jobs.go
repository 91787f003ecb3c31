package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// jobRow is a job in a list. id repeats jobId, because the seeds use different names. createdAt is the job's
// arrival.
type jobRow struct {
	JobID           job.ID     `json:"jobId"`
	ID              job.ID     `json:"id"`
	Type            string     `json:"type"`
	Tier            job.Tier   `json:"tier"`
	Queue           string     `json:"queue"`
	Key             *string    `json:"key"` // of its line; null: the submit said none
	Status          job.Status `json:"status"`
	RetryCount      int        `json:"retryCount"`
	Attempts        int        `json:"attempts"`
	MaxRetries      int        `json:"maxRetries"`
	RunAt           *string    `json:"runAt"`
	ExpiresAt       *string    `json:"expiresAt"` // of a job that waits for its first claim
	LastError       *string    `json:"lastError"`
	CreatedAt       *string    `json:"createdAt"`
	UpdatedAt       *string    `json:"updatedAt"`
	FirstTriedAt    *string    `json:"firstTriedAt"`
	CompletedAt     *string    `json:"completedAt"`
	FailureCause    *job.Cause `json:"failureCause"`
	Generation      int        `json:"generation"`
	TraceID         *string    `json:"traceId"`
	CancelRequested bool       `json:"cancelRequested"`
	Note            *string    `json:"note"` // of the result
}

// jobBody is the whole job.
type jobBody struct {
	jobRow
	Owner       *string        `json:"owner,omitempty"` // the id of the key; only operators see it
	Payload     jsontext.Value `json:"payload"`
	PayloadKept bool           `json:"payloadKept"` // false: not known any more whether there was a payload
	CallbackURL *string        `json:"callbackUrl"`
	Schedule    *string        `json:"schedule"` // null: none made it, or SQL does not answer
	FlowID      *job.ID        `json:"flowId"`   // null: it is of no flow, or SQL does not answer
	BatchID     *job.ID        `json:"batchId"`  // of which it is a member
	Result      jsontext.Value `json:"result"`
	Progress    *progressBody  `json:"progress,omitempty"`
	History     []attemptBody  `json:"history"`
	Reasons     *[]reasonBody  `json:"reasons"` // null: SQL does not answer
}

type listBody[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"` // null at the end
}

func rowOf(j *job.Job) jobRow {
	return jobRow{
		JobID: j.ID, ID: j.ID, Type: j.Type, Tier: j.Tier, Queue: j.QueueName(), Key: lineKeyOf(j.Line).Key,
		Status: j.Status.Shown(), RetryCount: j.RetryCount,
		Attempts:   j.Attempt,
		MaxRetries: j.MaxRetries, LastError: orNull(j.LastError), CreatedAt: when(j.ArrivedAt),
		FirstTriedAt: when(j.FirstTriedAt),
		CompletedAt: when(
			j.EndedAt,
		), FailureCause: orNull(j.Cause), Generation: j.Generation, TraceID: orNull(j.TraceID),
		RunAt: dueAt(j), ExpiresAt: when(j.ExpiresAt()), CancelRequested: j.CancelRequested && !j.Status.Ended(),
		UpdatedAt: when(latest(j.ArrivedAt, j.FirstTriedAt, j.StartedAt, j.EndedAt)),
		Note:      orNull(j.Note),
	}
}

// dueAt returns when a SCHEDULED job runs, or a HELD job at the earliest; nil for any other job.
func dueAt(j *job.Job) *string {
	if j.Status != job.Scheduled && j.Status != job.Held {
		return nil
	}
	return when(j.RunAt)
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// getJob serves GET /jobs/{id} and GET /api/jobs/{id}.
func (a *api) getJob(c *gin.Context) error {
	id, err := bareID(c)
	if err != nil {
		return err
	}
	j, err := a.find(c, id)
	if err != nil {
		return aboutJob(err, id)
	}
	attempts, err := a.Jobs.Attempts(c.Request.Context(), id)
	if err != nil {
		return aboutJob(err, id)
	}
	j, kept, err := a.Jobs.Whole(c.Request.Context(), j)
	if err != nil {
		return aboutJob(err, id)
	}
	a.veil(c, &j)
	attempts = a.veilAttempts(c, j.Type, attempts)
	aside, cancel := context.WithTimeout(c.Request.Context(), asidePatience)
	defer cancel()
	body := jobBody{
		jobRow: rowOf(&j), Payload: j.Payload, PayloadKept: kept, CallbackURL: orNull(j.CallbackURL), Result: j.Result,
		Progress: progressOf(j.Progress), History: history(&j, attempts),
		Reasons: a.reasons(c, &j), FlowID: a.flowOf(aside, &j),
		Schedule: a.madeBy(aside, &j), BatchID: a.batchOf(aside, &j),
	}
	if callerOf(c).Operator() {
		body.Owner = orNull(j.Owner)
	}
	return write(c, http.StatusOK, &body)
}

// batchOf returns the id of the batch that a job is a member of, or nil. A job that has ended may have no options any
// more; then SQL says it, if SQL answers.
func (a *api) batchOf(ctx context.Context, j *job.Job) *job.ID {
	id := job.ID(j.Batch)
	if id == "" && j.Status.Ended() {
		id, _ = a.Batches.BatchOf(ctx, j.ID)
	}
	return orNull(id)
}

var listParams = params[listQuery]{
	"status": (*listQuery).setStatus, "tier": (*listQuery).setTier, "type": (*listQuery).setType,
	"cause": (*listQuery).setCause, "queue": (*listQuery).setQueue,
	"traceId": (*listQuery).setTrace, "limit": (*listQuery).setLimit, "cursor": (*listQuery).setCursor,
}

// list serves GET /admin/jobs and GET /api/jobs: all jobs for an operator, the caller's own for others.
func (a *api) list(c *gin.Context) error {
	q := listQuery{page: page{limit: pageLimit}}
	if err := listParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	if err := a.spendList(c); err != nil {
		return err
	}
	own(c, &q.Filter)
	jobs, next, err := a.Jobs.List(c.Request.Context(), q.Filter, q.cursor, q.limit)
	if err != nil {
		return listError(err)
	}
	body := listBody[jobRow]{Items: make([]jobRow, len(jobs)), Next: orNull(next)}
	for i := range jobs {
		a.veil(c, &jobs[i])
		body.Items[i] = rowOf(&jobs[i])
	}
	return write(c, http.StatusOK, &body)
}
