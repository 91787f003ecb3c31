//go:build failpoint

package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// chaos is the payload of a CHAOS job, the work of a chaos run: it does what it is told and writes down, in a file that
// all processes append to, that it did. That file is the truth about executions; the server knows nothing of it.
type chaos struct {
	Key     string `json:"key"`     // the client's own name of the job
	File    string `json:"file"`    // where it is written down
	SleepMs int64  `json:"sleepMs"` // works so long, unless its context ends
	Fail    int    `json:"fail"`    // fails in so many attempts, the first ones
	Later   int    `json:"later"`   // gives itself back in so many attempts, the first ones
	HangMs  int64  `json:"hangMs"`  // works so long whatever its context says
	Crash   int    `json:"crash"`   // kills its process in so many attempts, the first ones
	Pad     string `json:"pad"`     // only makes the payload longer

	sum string // SHA-256 of the payload's bytes, as they came
}

// UnmarshalJSON keeps the hash of the bytes: what the server changed between submit and handler shows in it.
func (c *chaos) UnmarshalJSON(b []byte) error {
	type plain chaos
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	c.sum = sum(b)
	return nil
}

// Validate refuses a job that would leave no trace.
func (c *chaos) Validate() error {
	if c.File == "" {
		return &handler.PayloadError{Field: "payload.file", Reason: "is missing"}
	}
	return nil
}

// reached is the result of a CHAOS job.
type reached struct {
	Key string `json:"key"`
	Sum string `json:"sum"`
}

// note is one line of the file.
type note struct {
	ID         job.ID `json:"id"`
	Key        string `json:"key"`
	Generation int    `json:"gen"`
	Attempt    int    `json:"attempt"`
	PID        int    `json:"pid"`
	Sum        string `json:"sum"`
	What       string `json:"what"` // start, end, fail, later
	Result     string `json:"result"`
	Why        string `json:"why,omitempty"` // of a fail: why its context had ended, if it had
	At         int64  `json:"at"`            // ns since 1970
}

const laterFor = 50 * time.Millisecond

func runChaos(ctx context.Context, in chaos) (reached, error) {
	out := reached{Key: in.Key, Sum: in.sum}
	run, _ := handler.Running(ctx)
	if err := in.note(run, "start", "", ""); err != nil {
		return out, err
	}
	if run.Attempt <= in.Crash {
		say(ctx, "crashing")
		failpoint.Kill()
	}
	<-time.After(time.Duration(in.HangMs) * time.Millisecond)
	err := wait(ctx, in.SleepMs)
	switch {
	case err != nil:
		return out, errors.Join(err, in.note(run, "fail", "", err.Error()))
	case run.Attempt <= in.Later:
		return out, errors.Join(in.note(run, "later", "", ""), handler.Later(laterFor))
	case run.Attempt <= in.Fail:
		return out, errors.Join(in.note(run, "fail", "", ""), fmt.Errorf("attempt %d fails, as it was told", run.Attempt))
	}
	result, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	return out, in.note(run, "end", sum(result), "")
}

// note appends one line in one write, so that lines of several processes never mix.
func (c *chaos) note(run handler.Run, what, result, why string) error {
	line, err := json.Marshal(note{
		ID: run.ID, Key: c.Key, Generation: run.Generation, Attempt: run.Attempt, PID: os.Getpid(), Sum: c.sum, What: what,
		Result: result,
		Why:    why, At: time.Now().UnixNano(),
	})
	if err != nil {
		return fmt.Errorf("note the %s: %w", what, err)
	}
	f, err := os.OpenFile(c.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note the %s: %w", what, err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
