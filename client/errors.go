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

// What errors.Is finds in an *Error.
var (
	ErrNotFound = errors.New("not found") // no such job, tier or file
	// the server cannot be reached, or cannot serve at the moment
	ErrUnavailable    = errors.New("unavailable")
	ErrQueueFull      = errors.New("the queue is full")               // also ErrUnavailable
	ErrConflict       = errors.New("the job's state does not allow")  // such as a cancel of a job that has ended
	ErrChanged        = errors.New("changed by somebody else")        // SetTier: the tier is not the one that was read
	ErrOutcomeUnknown = errors.New("it may or may not have happened") // the call was sent and its outcome never came
	ErrUnauthorized   = errors.New("not allowed")                     // no API key, a wrong one, or one without the right
	ErrInvalid        = errors.New("the request is not valid")        // see Error.Fields
	ErrRateLimited    = errors.New("too many requests")
	ErrMismatch       = errors.New("the idempotency key was used with another body")

	// ErrNotSent: SubmitBatch gave up before it came to this submission.
	ErrNotSent = errors.New("not sent")
)

// What is wrong with an answer that looks like a success: perhaps another server than tierq gave it.
var (
	errNoJob    = errors.New("the answer names no job")
	errNoFile   = errors.New("the answer is no file of a job")
	errNoExport = errors.New("the answer is no list of dead letters")
)

// Error is a refusal by the server, or a call that it did not answer (Status 0).
type Error struct {
	Status     int    // the HTTP status; 0 = no answer, see Err
	Code       string // such as QUEUE_FULL; "" if the answer did not come from a tierq server
	Message    string
	Detail     string
	Fields     []FieldError  // what is wrong with the request
	TraceID    string        // under which the server's log knows the call
	JobID      string        // the job the error is about; with ErrOutcomeUnknown: the one to poll
	RetryAfter time.Duration // when to come again; 0 = the server did not say

	// Key is the Idempotency-Key of the call: the same call with the same key is safe, also when the outcome is unknown.
	Key string
	// Unknown: the call changes something, and this try or one before it may have done so.
	Unknown bool
	// Err is what went wrong on this side of the wire, such as a refused connection.
	Err error
}

// FieldError names what is wrong with one field.
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

// Unwrap gives what went wrong on this side of the wire.
func (e *Error) Unwrap() error { return e.Err }

// Is finds the sentinels of this package.
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
	case ErrMismatch:
		return e.Code == "IDEMPOTENCY_MISMATCH"
	}
	return false
}

// refusal reads the error body of the contract; what is not one keeps its status.
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

// timeIsUp reports whether it was the caller who ended the call.
func timeIsUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// JobFailedError says that a job has FAILED for good.
type JobFailedError struct{ Poll Poll }

func (e *JobFailedError) Error() string {
	return fmt.Sprintf("job %s failed after %d retries: %s: %s", e.Poll.JobID, e.Poll.RetryCount, e.Poll.FailureCause,
		e.Poll.LastError)
}

// JobCancelledError says that a job was CANCELLED.
type JobCancelledError struct{ Poll Poll }

func (e *JobCancelledError) Error() string { return fmt.Sprintf("job %s was cancelled", e.Poll.JobID) }

// ending is what the end of a job means to those who waited for its result.
func ending(p *Poll) error {
	switch p.Status {
	case Failed:
		return &JobFailedError{Poll: *p}
	case Cancelled:
		return &JobCancelledError{Poll: *p}
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
