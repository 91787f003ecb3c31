package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The errors that errors.Is finds in an *Error.
var (
	ErrNotFound = errors.New("not found") // the job, tier or file does not exist
	// The server cannot be reached, or cannot serve now.
	ErrUnavailable    = errors.New("unavailable")
	ErrQueueFull      = errors.New("the queue is full")               // also ErrUnavailable
	ErrConflict       = errors.New("the job's state does not allow")  // such as a cancel of a job that has ended
	ErrChanged        = errors.New("the tier has changed meanwhile")  // SetTier: it changed after it was read
	ErrOutcomeUnknown = errors.New("it may or may not have happened") // the call was sent, and its outcome never arrived
	ErrUnauthorized   = errors.New("not allowed")                     // no API key, a wrong one, or one without the right
	ErrInvalid        = errors.New("the request is not valid")        // see Error.Fields
	ErrRateLimited    = errors.New("too many requests")
	ErrTaken          = errors.New("another job holds the unique key") // also ErrConflict; Error.JobID is that job
	ErrSealed         = errors.New("the batch is sealed")              // also ErrConflict: it takes no more members
	ErrMismatch       = errors.New("the idempotency key was used with another body")

	// ErrNotSent means that SubmitBatch ended before it sent this submission.
	ErrNotSent = errors.New("not sent")
)

// The errors of an answer that looks like a success. Another server than tierq may have given it.
var (
	errNoJob    = errors.New("the answer names no job")
	errNoFile   = errors.New("the answer is no file of a job")
	errNoExport = errors.New("the answer is no list of dead letters")
)

// Error is a refusal by the server, or a call without an answer (Status 0).
type Error struct {
	Status     int    // the HTTP status; 0 = no answer, see Err
	Code       string // such as QUEUE_FULL; "" if the answer is not a tierq server's
	Message    string
	Detail     string
	Fields     []FieldError  // the errors in the request
	TraceID    string        // the call's id in the server's log
	JobID      string        // the job that the error is about; with ErrOutcomeUnknown: the job to poll
	RetryAfter time.Duration // the wait before a repeat; 0 = the server did not say

	// Key is the Idempotency-Key of the call. Repeating the call with this key is safe, also if its outcome is
	// unknown.
	Key string
	// Unknown means that the call changes something, and that this try or an earlier one may have done so.
	Unknown bool
	// Err is the client's own error, such as a refused connection.
	Err error
}

// FieldError is the error in one field.
type FieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Status == 0:
		b.WriteString("no answer")
	case e.Code != "":
		fmt.Fprintf(&b, "%d %s", e.Status, e.Code)
	default:
		fmt.Fprintf(&b, "%d %s", e.Status, http.StatusText(e.Status))
	}
	if text := e.Detail; text != "" {
		b.WriteString(": " + text)
	} else if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Unknown {
		b.WriteString(" (" + ErrOutcomeUnknown.Error() + ")")
	}
	return b.String()
}

// Unwrap returns the client's own error.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the sentinel errors of this package.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrUnavailable:
		return e.Status == 0 && !timeIsUp(e.Err) || e.Status == http.StatusBadGateway ||
			e.Status == http.StatusServiceUnavailable ||
			e.Status == http.StatusGatewayTimeout
	case ErrQueueFull:
		return e.Code == "QUEUE_FULL"
	case ErrConflict:
		return e.Status == http.StatusConflict
	case ErrChanged:
		return e.Status == http.StatusPreconditionFailed
	case ErrOutcomeUnknown:
		return e.Unknown
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	case ErrInvalid:
		return e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity ||
			e.Status == http.StatusRequestEntityTooLarge
	case ErrRateLimited:
		return e.Status == http.StatusTooManyRequests
	case ErrTaken:
		return e.Code == "UNIQUE_TAKEN"
	case ErrSealed:
		return e.Code == "BATCH_SEALED"
	case ErrMismatch:
		return e.Code == "IDEMPOTENCY_MISMATCH"
	}
	return false
}

// refusal reads an error body of the API. For any other body it keeps only the status and the headers.
func refusal(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode, TraceID: resp.Header.Get("X-Trace-Id"), RetryAfter: retryAfter(resp.Header)}
	var said struct {
		Code    string       `json:"errorCode"`
		Message string       `json:"message"`
		Detail  string       `json:"detail"`
		TraceID string       `json:"traceId"`
		JobID   string       `json:"jobId"`
		Fields  []FieldError `json:"errors"`
	}
	if json.Unmarshal(body, &said) == nil {
		e.Code, e.Message, e.Detail, e.JobID, e.Fields = said.Code, said.Message, said.Detail, said.JobID, said.Fields
		e.TraceID = cmp.Or(said.TraceID, e.TraceID)
	}
	return e
}

// timeIsUp reports whether the caller's context ended the call.
func timeIsUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// JobFailedError means that a job has FAILED for good.
type JobFailedError struct{ Poll Poll }

func (e *JobFailedError) Error() string {
	return fmt.Sprintf("job %s failed after %d retries: %s: %s", e.Poll.JobID, e.Poll.RetryCount, e.Poll.FailureCause,
		e.Poll.LastError)
}

// JobCancelledError means that a job was CANCELLED.
type JobCancelledError struct{ Poll Poll }

func (e *JobCancelledError) Error() string { return fmt.Sprintf("job %s was cancelled", e.Poll.JobID) }

// JobExpiredError means that a job EXPIRED: no worker claimed it by the time that its submit said.
type JobExpiredError struct{ Poll Poll }

func (e *JobExpiredError) Error() string {
	return fmt.Sprintf("job %s expired: no worker claimed it in time", e.Poll.JobID)
}

// ending returns the error of an ended job for the callers who wait for its result; nil if it is COMPLETED.
func ending(p *Poll) error {
	switch p.Status {
	case Failed:
		return &JobFailedError{Poll: *p}
	case Cancelled:
		return &JobCancelledError{Poll: *p}
	case Expired:
		return &JobExpiredError{Poll: *p}
	}
	return nil
}

func decodeResult(id string, result json.RawMessage, v any) error {
	if len(result) == 0 {
		return fmt.Errorf("client: job %s has no result", id)
	}
	if err := json.Unmarshal(result, v); err != nil {
		return fmt.Errorf("client: result of job %s: %w", id, err)
	}
	return nil
}
