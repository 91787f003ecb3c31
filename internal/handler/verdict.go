package handler

import (
	"errors"
	"time"
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

// RetryAfter fails the attempt, which costs a retry, and sets the wait before the next attempt instead of the
// tier's backoff.
func RetryAfter(d time.Duration, err error) error { return retryError{err, d} }

// Later gives the job back for d (at least 1 ms) without spending a retry. Beyond the server's limits for later it
// spends one.
func Later(d time.Duration) error { return LaterBecause(d, "") }

// LaterBecause is Later with a reason, of which the job's history keeps at most 512 bytes.
func LaterBecause(d time.Duration, reason string) error {
	return laterError{max(d, time.Millisecond), reason}
}

// Verdict is the request in a handler's error.
type Verdict struct {
	Permanent  bool
	Later      time.Duration // > 0: release the job with this delay
	Reason     string        // why the handler asked for Later; "" = not given
	RetryAfter time.Duration // >= 0 if the handler chose; -1: the tier's backoff
}

// Judge returns the verdict of a handler's error.
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
