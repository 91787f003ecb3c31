//go:build failpoint

package handlers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// registerFaults adds the job types that only tests need, in builds with the tag "failpoint":
//
//	CRASH {"afterMs","how"}  ends the process in the middle of the job: "kill" as kill -9 does (the default), "exit",
//	                         "stack" (overflow), "maps" (concurrent writes), "goroutinePanic" or "oom"
//	                         (faults_poison.go)
//	HANG  {"forMs"}          ignores its context for that long, then completes
//	COUNT {"file","sleepMs"} writes "jobId attempt pid start" to the file, sleeps, writes "jobId attempt pid end"
//	BIG   {"bytes"}          completes with a result of that many bytes
//	CHAOS see chaos.go
func registerFaults(r *handler.Registry) {
	handler.Register(r, "CRASH", crash)
	handler.Register(r, "HANG", hang)
	handler.Register(r, "COUNT", count)
	handler.Register(r, "BIG", big)
	handler.Register(r, "CHAOS", runChaos)
}

type crashing struct {
	AfterMs int64  `json:"afterMs"`
	How     string `json:"how"`
}

// Validate refuses an unknown way to end the process.
func (c *crashing) Validate() error {
	if _, ok := poisonOf(c.How); !ok {
		return &handler.PayloadError{Field: "payload.how", Reason: "is none of " + poisonNames()}
	}
	return nil
}

type hanging struct {
	ForMs int64 `json:"forMs"`
}

type counting struct {
	File    string `json:"file"`
	SleepMs int64  `json:"sleepMs"`
}

// Validate refuses a payload without a file.
func (c *counting) Validate() error {
	if c.File == "" {
		return &handler.PayloadError{Field: "payload.file", Reason: "is missing"}
	}
	return nil
}

func crash(ctx context.Context, in crashing) (struct{}, error) {
	say(ctx, "started")
	if err := wait(ctx, in.AfterMs); err != nil {
		return struct{}{}, err
	}
	say(ctx, "crashing")
	p, _ := poisonOf(in.How)
	p.kill()
	return struct{}{}, nil
}

type bigness struct {
	Bytes int `json:"bytes"`
}

func big(_ context.Context, in bigness) (string, error) {
	return strings.Repeat("x", max(in.Bytes-2, 0)), nil
} // the result's two quotes are the other two bytes

func hang(ctx context.Context, in hanging) (struct{}, error) {
	say(ctx, "started")
	<-time.After(time.Duration(in.ForMs) * time.Millisecond)
	say(ctx, "returned")
	return struct{}{}, nil
}

// count records each execution in the file: how often, and in which process, a job ran. Tests compare the server's
// answers with that file.
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
	run, _ := handler.Running(ctx)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("mark the %s: %w", what, err)
	}
	_, err = fmt.Fprintf(f, "%s %d %d %s\n", run.ID, run.Attempt, os.Getpid(), what)
	return errors.Join(err, f.Close())
}

// say writes a line of evidence to stderr.
func say(ctx context.Context, what string) {
	run, _ := handler.Running(ctx)
	fmt.Fprintf(os.Stderr, "%s job=%s attempt=%d pid=%d\n", what, run.ID, run.Attempt, os.Getpid())
}
