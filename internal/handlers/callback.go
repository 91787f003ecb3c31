package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	callbackRetries = 8
)

// calling is the payload of a CALLBACK job. The job posts Event unchanged, as a Standard Webhooks message with
// this ID.
type calling struct {
	ID    string          `json:"id"`
	URL   string          `json:"url"`
	Event json.RawMessage `json:"event"`
}

// called is the result of a CALLBACK job.
type called struct {
	Status int `json:"status"`
}

// event is the body that a job's callback URL receives when the job has ended. Absent values are null, so that
// every event has the same members.
type event struct {
	Type      string    `json:"type"`      // job.completed, job.failed or job.expired
	Timestamp string    `json:"timestamp"` // when the job ended
	Data      eventData `json:"data"`
}

type eventData struct {
	JobID        job.ID          `json:"jobId"`
	Generation   int             `json:"generation"`
	Status       job.Status      `json:"status"`
	Tier         job.Tier        `json:"tier"`
	Type         string          `json:"type"`
	RetryCount   int             `json:"retryCount"`
	MaxRetries   int             `json:"maxRetries"`
	ArrivedAt    *string         `json:"arrivedAt"`
	CompletedAt  *string         `json:"completedAt"` // null unless the job is completed
	FailedAt     *string         `json:"failedAt"`    // null unless the job is failed
	Result       json.RawMessage `json:"result"`
	FailureCause *job.Cause      `json:"failureCause"`
	LastError    *string         `json:"lastError"`
	TraceID      *string         `json:"traceId"`
	Owner        *string         `json:"owner"` // the id of the API key that submitted the job
}

// Callback returns the payload of the CALLBACK job that reports o to o.CallbackURL. The status of o is COMPLETED,
// FAILED or EXPIRED. The same outcome gives the same payload. The message's id is <job id>_<generation>, while that of
// a SEND_WEBHOOK job has no underscore: so no user can get a forged event signed under the id of a real one.
func Callback(o job.Outcome) []byte {
	at := stamp(o.EndedAt)
	e := event{Type: "job.completed", Data: eventData{
		JobID: o.ID, Generation: o.Generation, Status: o.Status.Shown(), Tier: o.Tier, Type: o.Type,
		RetryCount: o.RetryCount, MaxRetries: o.MaxRetries, ArrivedAt: stamp(o.ArrivedAt), CompletedAt: at,
		TraceID: orNull(o.TraceID), Owner: orNull(o.Owner),
	}}
	if at != nil {
		e.Timestamp = *at
	}
	switch o.Status {
	case job.Expired:
		e.Type, e.Data.CompletedAt = "job.expired", nil
	case job.Completed:
		if json.Valid(o.Result) {
			e.Data.Result = o.Result
		}
	default:
		e.Type, e.Data.CompletedAt, e.Data.FailedAt = "job.failed", nil, at
		e.Data.FailureCause, e.Data.LastError = orNull(o.Cause), orNull(strings.ToValidUTF8(o.LastError, "\uFFFD"))
	}
	text, _ := json.Marshal(e) // cannot fail: the result was checked, all else is plain
	payload, _ := json.Marshal(calling{ID: fmt.Sprintf("%s_%d", o.ID, o.Generation), URL: o.CallbackURL, Event: text})
	return payload
}

// CallbackJob returns the CALLBACK job for an outcome. The same outcome gives the same job. It runs in the tier of
// the job that it reports, and has the same owner and trace.
func CallbackJob(o job.Outcome) job.Job {
	return job.Job{
		ID: job.CallbackID(o.ID, o.Generation), Generation: 1, Tier: o.Tier, Type: job.CallbackType, Payload: Callback(o),
		MaxRetries: callbackRetries, Owner: o.Owner, TraceID: o.TraceID, Options: job.Options{SpanID: o.SpanID},
	}
}

func (o outgoing) callback(ctx context.Context, in calling) (called, error) {
	answer, err := o.post(ctx, Request{URL: in.URL, Body: in.Event, MessageID: in.ID})
	if err != nil {
		return called{}, err
	}
	return called{Status: answer.Status}, nil
}

// stamp formats a time as the API shows it; nil (null) for the zero time.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000000Z")
	return &text
}

func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}
