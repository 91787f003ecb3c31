package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// What a report says of the end of an attempt.

// The members of a report.
type (
	entry struct {
		Lease     string     `json:"lease"`
		Completed *completed `json:"completed,omitempty"`
		Failed    *failed    `json:"failed,omitempty"`
		Released  *released  `json:"released,omitempty"`
	}
	completed struct {
		Result json.RawMessage `json:"result"`
	}
	failed struct {
		Error      failure `json:"error"`
		Permanent  bool    `json:"permanent,omitempty"`
		RetryAfter *int64  `json:"retryAfterSeconds,omitempty"`
	}
	failure struct {
		Message string `json:"message"`
		Type    string `json:"type,omitempty"`
		Stack   string `json:"stack,omitempty"`
	}
	released struct {
		Delay  int64  `json:"delaySeconds,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
)

// The bounds of the waits that a handler asks for, and of its reason, in bytes.
const (
	mostRetryAfter = 24 * time.Hour
	mostLater      = 365 * 24 * time.Hour
	mostReason     = 512
)

// goexit is the message about a handler that ended its goroutine.
const goexit = "the handler called runtime.Goexit"

// says returns the report of a handler that has returned.
func (a *attempt) says(result json.RawMessage, err error) *entry {
	if err == nil {
		return &entry{Lease: a.Sealed, Completed: &completed{result}}
	}
	f := failure{Message: textOf(err)}
	if _, unknown := err.(unknownType); unknown { //nolint:errorlint // the worker's own, never wrapped
		f.Type = "UNKNOWN_JOB_TYPE"
	}
	return a.fails(f, wishOf(err))
}

// fails returns the report of a handler's error.
func (a *attempt) fails(f failure, asked wish) *entry {
	e := &entry{Lease: a.Sealed}
	cause := context.Cause(a.ctx)
	switch {
	case asked.later != nil:
		e.Released = &released{max(seconds(asked.later.after, mostLater), 1), cut(asked.later.reason, mostReason)}
	case asked.permanent:
		e.Failed = &failed{Error: f, Permanent: true}
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost):
		e.Released = &released{} // the worker disturbed the handler, which must not cost a retry
	default:
		if errors.Is(cause, ErrMaxTime) {
			f.Type = "MAX_TIME_EXCEEDED"
		}
		e.Failed = &failed{Error: f}
		if asked.retry != nil {
			after := seconds(asked.retry.after, mostRetryAfter)
			e.Failed.RetryAfter = &after
		}
	}
	return e
}

// refused returns the report that stands in for one that the server refuses. A completed job fails for good, because
// each attempt would end with such a result. Any other report becomes a failure that may be retried, unless it was
// final.
func (e *entry) refused(why string) *entry {
	const said = "the server refused the report: "
	f := &failed{Error: failure{Message: said + why}, Permanent: true}
	switch {
	case e.Failed != nil:
		f.Permanent, f.Error.Type = e.Failed.Permanent, e.Failed.Error.Type
		f.Error.Message = cut(e.Failed.Error.Message, mostText*3/4) + "; " + said + why
	case e.Released != nil:
		f.Permanent, f.Error.Message = false, "the handler gave the job back: "+e.Released.Reason+"; "+said+why
	}
	f.Error.Message = cut(f.Error.Message, mostText)
	return &entry{Lease: e.Lease, Failed: f}
}

// seconds returns a wait in whole seconds, 0 to most. It rounds up: a wait is never shorter than a handler asked for.
func seconds(d, most time.Duration) int64 {
	d = min(max(d, 0), most)
	if d%time.Second > 0 {
		d += time.Second
	}
	return int64(d / time.Second)
}
