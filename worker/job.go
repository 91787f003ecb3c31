package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Job describes the job that a handler is running.
type Job struct {
	ID         string          `json:"jobId"` // the same in each attempt: the key of the job's side effects
	Type       string          `json:"type"`
	Queue      string          `json:"queue"`
	Tier       string          `json:"tier"`
	Payload    json.RawMessage `json:"payload"`
	Attempt    int             `json:"attempt"`    // from 1
	RetryCount int             `json:"retryCount"` // retries that were spent
	MaxRetries int             `json:"maxRetries"`
	Generation int             `json:"generation"` // from 1; each requeue of an ended job begins another
	Checkpoint json.RawMessage `json:"checkpoint"` // the last one of an earlier attempt of this generation; nil = none
	TraceID    string          `json:"traceId"`
	// Traceparent is the header of the W3C's Trace Context for spans of this attempt; "" = the job has no trace.
	Traceparent string `json:"traceparent"`
	FlowID      string `json:"flowId"` // the flow whose job it is; "" = none. See Inputs and AddToFlow
}

// MaxCheckpoint is the maximum size of a checkpoint, in bytes of JSON.
const MaxCheckpoint = 16 << 10

// These are the causes with which a handler's context ends, for errors.Is with context.Cause. The text of a cause says
// more.
var (
	ErrMaxTime   = errors.New("maximum processing time exceeded") // the attempt fails
	ErrLeaseLost = errors.New("lease lost")                       // another worker may hold the job
	ErrCancelled = errors.New("job cancelled")                    // a user cancelled the job
	ErrStopping  = errors.New("worker stopping")                  // the job goes back to its queue, no retry spent
)

// These errors ask for something other than the tier's retries.
type (
	permanentError struct{ error }
	retryError     struct {
		error
		after time.Duration
	}
	laterError struct {
		after  time.Duration
		reason string
	}
	unknownType string
)

func (e permanentError) Error() string { return textOf(e.error) }
func (e permanentError) Unwrap() error { return e.error }
func (e retryError) Error() string     { return textOf(e.error) }
func (e retryError) Unwrap() error     { return e.error }
func (e laterError) Error() string     { return fmt.Sprintf("later: in %s: %s", e.after, e.reason) }
func (e unknownType) Error() string    { return "this worker has no handler for " + string(e) }

// Permanent makes err final: the job becomes a dead letter at once, whatever retries are left. A nil err fails the job
// too.
func Permanent(err error) error {
	if err == nil {
		err = errors.New("permanent: the handler gave no error")
	}
	return permanentError{err}
}

// RetryAfter fails the attempt, which costs a retry, and sets the wait before the next attempt, in whole seconds and 0
// to a day, instead of the tier's backoff. A nil err fails the attempt too.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry after: the handler gave no error")
	}
	return retryError{err, d}
}

// Later gives the job back for d, in whole seconds and one second to 365 days, without spending a retry. Beyond the
// server's limits for later it spends one.
func Later(d time.Duration) error { return laterError{after: d} }

// LaterBecause is Later with a reason, of which the job's history keeps at most 512 bytes.
func LaterBecause(d time.Duration, reason string) error { return laterError{d, reason} }

// Running returns the job that a handler's context belongs to; false if it belongs to none.
func Running(ctx context.Context) (Job, bool) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return Job{}, false
	}
	return a.Job, true
}

// Checkpoint stores the progress of the running job, any value that becomes JSON, and replaces the checkpoint before.
// After a nil error a later attempt of the same generation finds it in Job.Checkpoint, whatever becomes of this
// process. Checkpoint fails, and the attempt goes on, if the JSON has more than MaxCheckpoint bytes, more than 32
// levels or a name twice, and if the server refuses it. If ctx ends first, the error is the cause of its end.
func Checkpoint(ctx context.Context, progress any) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return errors.New("checkpoint: no job runs in this context")
	}
	text, err := marshal(progress)
	if err == nil && len(text) > MaxCheckpoint {
		err = fmt.Errorf("it has %d bytes, and at most %d are kept", len(text), MaxCheckpoint)
	}
	if err == nil {
		err = strict(text)
	}
	if err == nil {
		select {
		case err = <-a.save(text):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

type handler func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error)

// Handle makes fn the handler of a job type. In is decoded from the payload; an absent payload is the zero In, and a
// payload that is no In makes the job a dead letter. Out is encoded as the job's result; an Out that is no JSON makes
// the job a dead letter, too. An error fails the attempt, and the tier decides whether there is another; see also
// Permanent, RetryAfter and Later. A panic and runtime.Goexit count as errors. Whatever fn does costs at most its own
// attempt, except if it ends the process. Register all handlers before Run. Jobs of types without a handler go back to
// their queue.
func Handle[In, Out any](w *Worker, typ string, fn func(context.Context, In) (Out, error)) {
	if _, twice := w.handlers[typ]; twice || typ == "" {
		w.refuse("the type " + typ + " has two handlers, or no name")
	}
	w.firstType = cmp.Or(w.firstType, typ)
	w.handlers[typ] = func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
		var in In
		if len(payload) > 0 {
			if err := unmarshal(payload, &in); err != nil {
				return nil, Permanent(fmt.Errorf("payload: %w", err))
			}
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		result, err := marshal(out)
		if err == nil {
			err = strict(result)
		}
		if err != nil {
			return nil, Permanent(fmt.Errorf("result: %w", err))
		}
		return result, nil
	}
}

// handle runs the handler of a job.
func (w *Worker) handle(ctx context.Context, j *Job) (json.RawMessage, error) {
	fn, known := w.handlers[j.Type]
	if !known {
		return nil, unknownType(j.Type)
	}
	return fn(ctx, j.Payload)
}
