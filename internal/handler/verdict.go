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

func (e permanentError) Error() string { return TextOf(e.error) }
func (e permanentError) Unwrap() error { return e.error }
func (e retryError) Error() string     { return TextOf(e.error) }
func (e retryError) Unwrap() error     { return e.error }

func (e laterError) Error() string {
	text := "later: in " + e.after.String()
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// Permanent makes err final: the job becomes a dead letter at once, whatever retries are left. A nil err fails the job
// too.
func Permanent(err error) error {
	if err == nil {
		err = errors.New("permanent: the handler gave no error")
	}
	return permanentError{err}
}

// RetryAfter fails the attempt, which costs a retry, and sets the wait before the next attempt, at most a day, instead
// of the tier's backoff. A nil err fails the attempt too.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry after: the handler gave no error")
	}
	return retryError{err, d}
}

// Later gives the job back for d, 1 ms to 365 days, without spending a retry. Beyond the server's limits for later it
// spends one.
func Later(d time.Duration) error { return LaterBecause(d, "") }

// LaterBecause is Later with a reason, of which the job's history keeps at most 512 bytes.
func LaterBecause(d time.Duration, reason string) error {
	return laterError{min(max(d, time.Millisecond), mostLater), reason}
}

// The bounds of the waits that a handler asks for.
const (
	mostRetryAfter = 24 * time.Hour
	mostLater      = 365 * 24 * time.Hour
)

// Verdict is the request in a handler's error.
type Verdict struct {
	Permanent  bool
	Later      time.Duration // > 0: release the job with this delay
	Reason     string        // why the handler asked for Later; "" = not given
	RetryAfter time.Duration // >= 0 if the handler chose; -1: the tier's backoff
}

// Judge returns the verdict of a handler's error.
func Judge(err error) Verdict {
	v, asked := Verdict{RetryAfter: -1}, wishOf(err)
	switch {
	case asked.later != nil:
		v.Later, v.Reason = asked.later.after, asked.later.reason
	case asked.permanent:
		v.Permanent = true
	case asked.retry != nil:
		v.RetryAfter = min(max(asked.retry.after, 0), mostRetryAfter)
	}
	return v
}
