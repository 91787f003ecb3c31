package job

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is what a worker says of how its attempt ended. Only the fields of its Kind count.
type Report struct {
	Kind ReportKind

	Result []byte // DidSucceed: JSON
	Cut    bool   // DidSucceed: the result is longer than any may be, and Result is its beginning

	Error       string        // DidFail
	Permanent   bool          // DidFail: no retry can help
	UnknownType bool          // DidFail: the worker has no handler for the job's type
	Overdue     bool          // DidFail: at the maximum processing time
	MaxRun      time.Duration // DidFail: the maximum processing time, for the text of an Overdue
	RetryAfter  time.Duration // DidFail: the wait before the next attempt; below zero = the plan's backoff

	Delay    time.Duration // GaveBack: how long the job waits; 0 = it is ready at once
	Reason   string        // GaveBack: why it waits
	Returned bool          // GaveBack without a Delay: an external worker wants it so, see Release
}

// ReportKind says how an attempt ended.
type ReportKind int

// The kinds of reports.
const (
	DidSucceed ReportKind = iota
	DidFail               // the attempt failed: it costs a retry, or the job is dead
	GaveBack              // the job goes back unharmed
)

// Verb says which script call takes an End.
type Verb int

// The verbs. Verbs is their number.
const (
	Completes Verb = iota
	Fails
	Releases
	Verbs
)

func (v Verb) String() string { return [...]string{"complete", "fail", "release"}[v] }

// End is the call that ends an attempt. Each field names the verbs that use it.
type End struct {
	Verb   Verb
	Result []byte        // Completes
	Cause  Cause         // Fails
	Text   string        // Fails: the error; Releases with a delay: the reason
	Final  bool          // Fails
	Delay  time.Duration // Fails, Releases

	Returned bool // Releases
}

// MaxError bounds the text of an error, in bytes.
const MaxError = 2048

// MaxLaterReason bounds the reason of a LATER, in bytes: a job may be later for days, and its history keeps 50 reasons.
const MaxLaterReason = 512

// unknownType is the error of an attempt whose worker has no handler for the job's type.
const unknownType = "no worker knows this type"

// Decide returns the call for a worker's report. limit is how many bytes a result may have; backoff is the plan's wait
// before a retry. A success counts even if the worker was told to stop: the work is done, and the script decides
// whether the lease still holds.
func Decide(r Report, limit int, backoff time.Duration) End {
	switch {
	case r.Kind == GaveBack && r.Delay > 0:
		return End{Verb: Releases, Delay: r.Delay, Text: clip(r.Reason, MaxLaterReason)}
	case r.Kind == GaveBack:
		return End{Verb: Releases, Returned: r.Returned}
	case r.Kind == DidSucceed && r.Cut:
		return End{Verb: Fails, Cause: ResultTooLarge, Final: true,
			Text: fmt.Sprintf("the result has more than %d bytes, which is the limit", limit)}
	case r.Kind == DidSucceed && len(r.Result) > limit:
		return End{Verb: Fails, Cause: ResultTooLarge, Final: true,
			Text: fmt.Sprintf("the result has %d bytes, the limit is %d", len(r.Result), limit)}
	case r.Kind == DidSucceed:
		return End{Verb: Completes, Result: r.Result}
	}
	e := End{Verb: Fails, Cause: HandlerError, Text: clip(r.Error, MaxError), Delay: backoff}
	switch {
	case r.Permanent:
		e.Cause, e.Final, e.Delay = PermanentError, true, 0
	case r.Overdue:
		e.Cause, e.Text = MaxTimeExceeded, clip(joined(MaxTimeText(r.MaxRun), r.Error), MaxError)
		e.Delay = 0 // a stuck job goes back to its place at once
	case r.UnknownType:
		e.Cause, e.Text, e.Delay = UnknownJobType, unknownType, 0 // fail.lua chooses the delay
	case r.RetryAfter >= 0:
		e.Delay = r.RetryAfter
	}
	return e
}

// MaxTimeText says which limit an attempt has reached, and which settings raise it. reclaim.lua writes the same.
func MaxTimeText(limit time.Duration) string {
	return "the attempt reached its maximum processing time of " + seconds(limit) +
		": maxProcessingSeconds of the queue or maxProcessingTimeMs of the tier allow more"
}

// HeartbeatText says for how long the worker of an attempt was silent, and which settings allow more. reclaim.lua
// writes the same.
func HeartbeatText(lease time.Duration) string {
	return "no heartbeat for " + seconds(lease) + ", so the worker has died, or was cut off or blocked: leaseSeconds of " +
		"its claims or heartbeatTimeoutMs of the tier allow more"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6g s", d.Seconds()) }

// joined returns a text, and a second one behind it if there is one.
func joined(text, more string) string {
	if more == "" {
		return text
	}
	return text + "; " + more
}

// Size is roughly how many bytes an End adds to a call.
func (e *End) Size() int { return 128 + len(e.Result) + len(e.Text) }

// Answered returns what the script's answer means, "" for an unknown word, and the cause of a RETRIED and a FAILED. An
// attempt of an unknown type costs no retry: it is RELEASED, with its cause.
func (e *End) Answered(word Word) (how Ending, cause Cause) {
	switch {
	case word == OK && e.Verb == Completes:
		return EndCompleted, ""
	case word == OK && e.Verb == Fails && e.Cause == UnknownJobType:
		return EndReleased, e.Cause
	case word == OK && e.Verb == Fails:
		return EndRetried, e.Cause
	case word == OK:
		return EndReleased, ""
	case word == Discarded && e.Verb == Releases:
		return EndFailed, LaterLimit
	case word == Discarded:
		return EndFailed, e.Cause
	case word == WasCancelled:
		return EndCancelled, ""
	case word == Lost:
		return EndLost, ""
	}
	return "", ""
}

// clip cuts a text to so many bytes, and makes it valid UTF-8.
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
