package handler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Run tells a handler which job it is running.
type Run struct {
	ID         job.ID
	Generation int
	Attempt    int
	RetryCount int
	MaxRetries int
	Tier       job.Tier
	Type       string
	Owner      string
	Everybody  bool // its submitter sees everybody's jobs
	TraceID    string
	Deadline   time.Time

	FirstTriedAt time.Time // the first claim of this generation, by Redis' clock
	StartedAt    time.Time // this claim, by the same clock
	Saved        []byte    // the last Checkpoint of an earlier attempt of this generation; nil = none

	// Save stores a checkpoint; the worker sets it. Handlers call Checkpoint.
	Save func(ctx context.Context, data []byte) error
	// Log is the worker's logger; nil = slog.Default(). Handlers call Logger.
	Log *slog.Logger
}

// RunKey is the key under which a handler's context holds a Runner. Handlers call Running.
type RunKey struct{}

// Runner tells which job it runs when it is asked.
type Runner interface{ Running() Run }

// Running implements Runner.
func (r Run) Running() Run { return r }

// WithRun puts the running job into a handler's context.
func WithRun(ctx context.Context, r Run) context.Context { return context.WithValue(ctx, RunKey{}, r) }

// Running is the job a handler's context belongs to.
func Running(ctx context.Context) (Run, bool) {
	r, ok := ctx.Value(RunKey{}).(Runner)
	if !ok {
		return Run{}, false
	}
	return r.Running(), true
}

// MaxCheckpoint bounds a checkpoint, in bytes.
const MaxCheckpoint = 16 << 10

// Checkpoint stores how far the running job has come, at most MaxCheckpoint bytes in place of what was there. When it
// returns nil, a later attempt of the same generation finds the data in Run.Saved, whatever becomes of this process. It
// returns ErrLeaseLost if another worker may hold the job now, and the store's error if it did not answer.
func Checkpoint(ctx context.Context, data []byte) error {
	run, _ := Running(ctx)
	switch {
	case run.Save == nil:
		return errors.New("checkpoint: no job runs in this context")
	case len(data) > MaxCheckpoint:
		return errors.New("checkpoint: too large")
	}
	return run.Save(ctx, data)
}

// Logger is the logger of the running job: each of its lines says which job, and which attempt of it, it belongs to. In
// a context without a job it is slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	run, ok := Running(ctx)
	if !ok {
		return slog.Default()
	}
	log := run.Log
	if log == nil {
		log = slog.Default()
	}
	return log.With(
		"job_id", run.ID, "tier", run.Tier, "type", run.Type, "attempt", run.Attempt, "trace_id", run.TraceID,
	)
}

// The causes of the end of a handler's context: context.Cause tells which.
var (
	ErrMaxTime   = errors.New("maximum processing time exceeded") // the attempt is counted as failed
	ErrLeaseLost = errors.New("lease lost")                       // another worker may hold the job: reports are refused
	ErrCancelled = errors.New("job cancelled")                    // a user cancelled the job
	ErrDraining  = errors.New("server draining")                  // the job goes back to its place, no retry spent
)
