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

// chaos is the payload of a CHAOS job, the work of a chaos run. The job does what its payload says and records
// each step in a file that all processes append to. The test compares the server's answers with that file, which
// the server never reads.
type chaos struct {
	Key     string `json:"key"`     // the client's own name for the job
	File    string `json:"file"`    // the file of records
	SleepMs int64  `json:"sleepMs"` // works this long, unless its context ends
	Fail    int    `json:"fail"`    // the first attempts, as many as this, fail
	Later   int    `json:"later"`   // the first attempts, as many as this, end with "later"
	HangMs  int64  `json:"hangMs"`  // works this long and ignores its context
	Crash   int    `json:"crash"`   // the first attempts, as many as this, kill their process
	Pad     string `json:"pad"`     // makes the payload longer, nothing else
	// Batch has the counts of the round for which the then job of a batch runs; nil for any other job.
	Batch *job.BatchCounts `json:"batch"`

	sum string // SHA-256 of the payload's bytes, as received, or of a then job's payload without the member batch
}

// UnmarshalJSON keeps the hash of the bytes, which shows whether the server changed them between submit and
// handler.
func (c *chaos) UnmarshalJSON(b []byte) error {
	type plain chaos
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	c.sum = sum(b)
	if c.Batch == nil {
		return nil
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	delete(members, "batch")
	rest, err := json.Marshal(members)
	c.sum = sum(rest)
	return err
}

// Validate refuses a job without a file, because such a job would leave no record.
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

// note is one line of the file of records.
type note struct {
	ID         job.ID `json:"id"`
	Key        string `json:"key"`
	Generation int    `json:"gen"`
	Attempt    int    `json:"attempt"`
	PID        int    `json:"pid"`
	Sum        string `json:"sum"`
	What       string `json:"what"` // start, end, fail, later
	Result     string `json:"result"`
	Why        string `json:"why,omitempty"` // of a fail: the cause for which the context had ended, if any
	At         int64  `json:"at"`            // ns since 1970

	Batch *job.BatchCounts `json:"batch,omitempty"`
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
		Why:    why, At: time.Now().UnixNano(), Batch: c.Batch,
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
