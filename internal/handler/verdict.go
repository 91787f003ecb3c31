package handler

import (
	"errors"
	"time"
)

// The ways a handler can ask for something else than the tier's retries.
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
)

func (e permanentError) Unwrap() error { return e.error }
func (e retryError) Unwrap() error     { return e.error }

func (e laterError) Error() string {
	text := "later: in " + e.after.String()
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// Permanent makes err final: the job becomes a dead letter at once, whatever retries are left.
func Permanent(err error) error { return permanentError{err} }

// RetryAfter fails the attempt, which costs a retry, and sets the wait before the next one in place of the tier's
// backoff.
func RetryAfter(d time.Duration, err error) error { return retryError{err, d} }

// Later gives the job back for d (at least 1 ms): no retry is spent.
func Later(d time.Duration) error { return LaterBecause(d, "") }

// LaterBecause is Later with a reason, which the job's history shows: at most 512 bytes of it are kept.
func LaterBecause(d time.Duration, reason string) error {
	return laterError{max(d, time.Millisecond), reason}
}

// Verdict is what a handler's error asks for.
type Verdict struct {
	Permanent  bool
	Later      time.Duration // > 0: give back, unharmed
	Reason     string        // why Later was asked for; "" = the handler did not say
	RetryAfter time.Duration // >= 0 if the handler chose; -1: the tier's backoff
}

// Judge reads a handler's error.
func Judge(err error) Verdict {
	v := Verdict{RetryAfter: -1}
	var later laterError
	var retry retryError
	var permanent permanentError
	switch {
	case errors.As(err, &later):
		v.Later, v.Reason = later.after, later.reason
	case errors.As(err, &permanent):
		v.Permanent = true
	case errors.As(err, &retry):
		v.RetryAfter = max(retry.after, 0)
	}
	return v
}
