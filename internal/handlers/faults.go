//go:build failpoint

package handlers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// The job types that only tests need, in builds with the tag "failpoint":
//
//	CRASH {"afterMs"}        kills the process as kill -9 does, in the middle of the job
//	HANG  {"forMs"}          ignores its context for that long, then completes
//	COUNT {"file","sleepMs"} writes "jobId attempt pid start" to the file, sleeps, writes "jobId attempt pid end"
func registerFaults(r *job.Registry) {
	job.Handle(r, "CRASH", crash)
	job.Handle(r, "HANG", hang)
	job.Handle(r, "COUNT", count)
}

type crashing struct {
	AfterMs int64 `json:"afterMs"`
}

type hanging struct {
	ForMs int64 `json:"forMs"`
}

type counting struct {
	File    string `json:"file"`
	SleepMs int64  `json:"sleepMs"`
}

// Validate refuses a count without a file.
func (c *counting) Validate() error {
	if c.File == "" {
		return &job.PayloadError{Field: "payload.file", Reason: "is missing"}
	}
	return nil
}

func crash(ctx context.Context, in crashing) (struct{}, error) {
	say(ctx, "started")
	if err := wait(ctx, in.AfterMs); err != nil {
		return struct{}{}, err
	}
	say(ctx, "crashing")
	failpoint.Kill()
	return struct{}{}, nil
}

func hang(ctx context.Context, in hanging) (struct{}, error) {
	say(ctx, "started")
	<-time.After(time.Duration(in.ForMs) * time.Millisecond)
	say(ctx, "returned")
	return struct{}{}, nil
}

// count is the ground truth of executions: the file says how often, and in which process, a job ran.
func count(ctx context.Context, in counting) (struct{}, error) {
	if err := mark(ctx, in.File, "start"); err != nil {
		return struct{}{}, err
	}
	if err := wait(ctx, in.SleepMs); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, mark(ctx, in.File, "end")
}

// mark appends one line in one write, so that lines of several processes never mix.
func mark(ctx context.Context, file, what string) error {
	run, _ := job.Running(ctx)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("mark the %s: %w", what, err)
	}
	_, err = fmt.Fprintf(f, "%s %d %d %s\n", run.ID, run.Attempt, os.Getpid(), what)
	return errors.Join(err, f.Close())
}

// say leaves evidence on stderr.
func say(ctx context.Context, what string) {
	run, _ := job.Running(ctx)
	fmt.Fprintf(os.Stderr, "%s job=%s attempt=%d pid=%d\n", what, run.ID, run.Attempt, os.Getpid())
}
