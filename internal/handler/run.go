package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Run describes the job that a handler is running.
type Run struct {
	ID         job.ID
	Generation int
	Attempt    int
	RetryCount int
	MaxRetries int
	Tier       job.Tier
	Type       string
	Owner      string
	Everybody  bool // the submitter sees all jobs
	TraceID    string
	Deadline   time.Time

	FirstTriedAt time.Time // the first claim of this generation, by Redis' clock
	StartedAt    time.Time // this claim, by the same clock
	Saved        []byte    // the last Checkpoint of an earlier attempt of this generation; nil = none

	// Save stores a checkpoint; the worker sets it. Handlers call Checkpoint.
	Save func(ctx context.Context, data []byte) error
	// Inputs reads what the jobs of its flow that the job waited for left behind; the worker sets it. Handlers call Input
	// and Inputs.
	Inputs func(ctx context.Context, name string) ([]job.FlowInput, error)
	// Tell takes how far the handler is, and Line a line of the job's log; the worker sets them, or leaves them nil.
	// Handlers call Progress and Logger.
	Tell func(*job.Progress)
	Line func(level, text string, attrs []byte)
	// Log is the worker's logger; nil = slog.Default(). Handlers call Logger.
	Log *slog.Logger
}

// RunKey is the key of the Runner in a handler's context. Handlers call Running instead.
type RunKey struct{}

// Runner returns the job that it runs.
type Runner interface{ Running() Run }

// Running implements Runner.
func (r Run) Running() Run { return r }

// WithRun puts the running job into a handler's context.
func WithRun(ctx context.Context, r Run) context.Context { return context.WithValue(ctx, RunKey{}, r) }

// Running returns the job that a handler's context belongs to; false if it belongs to none.
func Running(ctx context.Context) (Run, bool) {
	r, ok := ctx.Value(RunKey{}).(Runner)
	if !ok {
		return Run{}, false
	}
	return r.Running(), true
}

// MaxCheckpoint is the greatest size of a checkpoint, in bytes.
const MaxCheckpoint = 16 << 10

// Checkpoint stores the progress of the running job, at most MaxCheckpoint bytes, and replaces the checkpoint
// before. After a nil error a later attempt of the same generation finds the data in Run.Saved, whatever becomes
// of this process. The error is ErrLeaseLost if another worker may hold the job now, or the store's error if the
// store did not answer.
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

// Inputs returns what the jobs that the running job waited for in its flow left behind, by name. It leaves out results
// above 1 KiB (TooLarge); Input has them. The error is job.ErrNotFound for a job of no flow, or the store's.
func Inputs(ctx context.Context) ([]job.FlowInput, error) {
	run, _ := Running(ctx)
	if run.Inputs == nil {
		return nil, fmt.Errorf("inputs: %w", job.ErrNotFound)
	}
	return run.Inputs(ctx, "")
}

// Input returns what one job that the running job waited for in its flow left behind, whole. The error is
// job.ErrNotFound if the running job did not wait for one of that name, or the store's.
func Input(ctx context.Context, name string) (job.FlowInput, error) {
	run, _ := Running(ctx)
	if run.Inputs == nil || name == "" {
		return job.FlowInput{}, fmt.Errorf("input %q: %w", name, job.ErrNotFound)
	}
	inputs, err := run.Inputs(ctx, name)
	if err != nil || len(inputs) != 1 {
		return job.FlowInput{}, cmp.Or(err, fmt.Errorf("input %q: %w", name, job.ErrNotFound))
	}
	return inputs[0], nil
}

// Progress says how far the handler is: done of total, in units of its own, and a note of at most 200 bytes. total 0 =
// the handler does not know. Readers of the job see the last progress before a heartbeat, and the last one of
// all stays with the job's outcome. Progress never waits for the store, and fails no attempt. In a context
// without a job it does nothing.
func Progress(ctx context.Context, done, total int64, note string) {
	if run, _ := Running(ctx); run.Tell != nil {
		run.Tell(job.NewProgress(done, total, note))
	}
}

// Logger returns the logger of the running job, whose lines name the job and the attempt. The lines from INFO on also
// become the job's log, which users read: at most 4 KiB of each line, and 2,000 lines of a job. In a context without a
// job it returns slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	run, ok := Running(ctx)
	if !ok {
		return slog.Default()
	}
	log := run.Log
	if log == nil {
		log = slog.Default()
	}
	log = log.With(
		"job_id", run.ID, "tier", run.Tier, "type", run.Type, "attempt", run.Attempt, "trace_id", run.TraceID,
	)
	if run.Line == nil {
		return log
	}
	return slog.New(&jobLog{Handler: log.Handler(), line: run.Line})
}

// These are the causes with which a handler's context ends, for context.Cause.
var (
	ErrMaxTime   = errors.New("maximum processing time exceeded") // the attempt is counted as failed
	ErrLeaseLost = errors.New("lease lost")                       // another worker may hold the job
	ErrCancelled = errors.New("job cancelled")                    // a user cancelled the job
	ErrDraining  = errors.New("server draining")                  // the job goes back to its place, no retry spent
)
