package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// maxError bounds the text of an error, in bytes.
const maxError = 2048

// maxReason bounds the reason of a LATER, in bytes: a job may be later for days, and its history keeps 50 reasons.
const maxReason = 512

// kind says which call an ending needs.
type kind int

const (
	complete kind = iota
	fail
	release
	kinds
)

// ending is the report about a lease. Each field names the kinds that use it.
type ending struct {
	kind   kind
	result []byte        // complete
	cause  job.Cause     // fail
	text   string        // fail: the error; release with a delay: the reason
	final  bool          // fail
	delay  time.Duration // fail, release
}

// unknownType is the error of an attempt whose worker has no handler for the job's type.
const unknownType = "no worker knows this type"

// succeeded returns the ending of a handler that returned no error. It counts even if the handler's context had
// ended: the work is done, and the script decides whether the lease still holds.
func succeeded(result []byte, limit int) ending {
	if len(result) > limit {
		return ending{kind: fail, cause: job.ResultTooLarge, final: true,
			text: fmt.Sprintf("the result has %d bytes, the limit is %d", len(result), limit)}
	}
	return ending{kind: complete, result: result}
}

// failed returns the ending of a handler that returned an error or crashed. ended is why its context had ended,
// nil if it had not; backoff is the plan's wait before a retry.
func failed(r ran, ended error, backoff time.Duration) ending {
	e := ending{kind: fail, cause: job.HandlerError, text: text(r.err), delay: backoff}
	switch {
	case r.verdict.Later > 0:
		return ending{kind: release, delay: r.verdict.Later, text: clip(r.verdict.Reason, maxReason)}
	case errors.Is(ended, handler.ErrLeaseLost), errors.Is(ended, handler.ErrDraining):
		return ending{kind: release} // this process interrupted the handler, so it costs nothing
	case r.verdict.Permanent:
		e.cause, e.final, e.delay = job.PermanentError, true, 0
	case errors.Is(ended, handler.ErrMaxTime):
		e.cause, e.delay = job.MaxTimeExceeded, 0 // a stuck job goes back to its place at once
	case errors.Is(r.err, job.ErrUnknownType):
		e.cause, e.text, e.delay = job.UnknownJobType, unknownType, 0 // fail.lua chooses the delay
	case r.verdict.RetryAfter >= 0:
		e.delay = r.verdict.RetryAfter
	}
	return e
}

// overdue returns the ending of a job whose handler did not return at its maximum processing time.
func overdue() ending {
	text := handler.ErrMaxTime.Error() + "; the handler did not return"
	return ending{kind: fail, cause: job.MaxTimeExceeded, text: text}
}

// meaning returns what an answer to an ending means; "" for an unknown word.
func meaning(k kind, word job.Word) job.Ending {
	switch {
	case word == job.OK && k == complete:
		return job.EndCompleted
	case word == job.OK && k == fail:
		return job.EndRetried
	case word == job.OK:
		return job.EndReleased
	case word == job.Discarded:
		return job.EndFailed
	case word == job.WasCancelled:
		return job.EndCancelled
	case word == job.Lost:
		return job.EndLost
	}
	return ""
}

// text returns an error's text, cut to maxError bytes of valid UTF-8. fmt contains the panic of an Error method.
func text(err error) string { return clip(fmt.Sprintf("%v", err), maxError) }

func clip(s string, most int) string {
	s = strings.ToValidUTF8(head(s, most), "\uFFFD")
	return head(s, most)
}

// head returns at most the first so many bytes of s, without cutting a character.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for cut := most; cut > most-utf8.UTFMax; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut]
		}
	}
	return s[:most] // not UTF-8 there
}
