package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// Job describes the job that a handler is running.
type Job struct {
	ID         string // the same in each attempt: the key of the job's side effects
	Type       string
	Tier       string
	Attempt    int // from 1
	RetryCount int // retries that were spent
	MaxRetries int
	Generation int             // from 1; each requeue of an ended job begins another
	Checkpoint json.RawMessage // the last one of an earlier attempt of this generation; nil = none
	TraceID    string
	Deadline   time.Time // the end of the maximum processing time
}

// These are the causes with which a handler's context ends, for context.Cause.
var (
	ErrMaxTime   = handler.ErrMaxTime   // the attempt has failed
	ErrLeaseLost = handler.ErrLeaseLost // another worker may hold the job
	ErrCancelled = handler.ErrCancelled // a user cancelled the job
	ErrStopping  = handler.ErrDraining  // the server stops: the job goes back to its queue, no retry spent
)

// Permanent makes err final: the job becomes a dead letter at once, whatever retries are left. A nil err fails the job
// too.
func Permanent(err error) error { return handler.Permanent(err) }

// RetryAfter fails the attempt, which costs a retry, and sets the wait before the next attempt, at most a day, instead
// of the tier's backoff. A nil err fails the attempt too.
func RetryAfter(d time.Duration, err error) error { return handler.RetryAfter(d, err) }

// Later gives the job back for d, at most 365 days, without spending a retry. Beyond the server's limits for later it
// spends one.
func Later(d time.Duration) error { return handler.Later(d) }

// LaterBecause is Later with a reason, of which the job's history keeps at most 512 bytes.
func LaterBecause(d time.Duration, reason string) error { return handler.LaterBecause(d, reason) }

// Running returns the job that a handler's context belongs to; false if it belongs to none.
func Running(ctx context.Context) (Job, bool) {
	run, ok := handler.Running(ctx)
	if !ok {
		return Job{}, false
	}
	return Job{
		ID: string(run.ID), Type: run.Type, Tier: string(run.Tier), Attempt: run.Attempt, RetryCount: run.RetryCount,
		MaxRetries: run.MaxRetries, Generation: run.Generation, Checkpoint: run.Saved, TraceID: run.TraceID,
		Deadline: run.Deadline,
	}, true
}

// MaxCheckpoint is the greatest size of a checkpoint, in bytes of JSON.
const MaxCheckpoint = handler.MaxCheckpoint

// Checkpoint stores the progress of the running job, any value that becomes at most MaxCheckpoint bytes of JSON, and
// replaces the checkpoint before. After a nil error a later attempt of the same generation finds it in Job.Checkpoint.
// It fails for a value that is no JSON, has more than 32 levels or a name twice. The error is ErrLeaseLost if another
// worker may hold the job now, or the store's error if it did not answer.
func Checkpoint(ctx context.Context, progress any) error {
	text, err := handler.Encode(progress)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return handler.Checkpoint(ctx, text)
}

// Logger returns the logger of the running job, whose lines name the job and the attempt.
func Logger(ctx context.Context) *slog.Logger { return handler.Logger(ctx) }
