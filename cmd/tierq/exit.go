package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tierq/tierq/client"
)

// The exit codes of the commands that talk to a server.
const (
	exitError = 1
	exitUsage = 2
	exitJob   = 3 // the job of --wait FAILED, was CANCELLED or EXPIRED
	// The time limit was reached, or the outcome of a change is unknown, which must not look like a refusal.
	exitTimeout     = 4
	exitUnavailable = 5 // the server is away or cannot serve now; nothing was changed
	exitNotFound    = 6
)

// misuse is a usage error that a command finds while it runs.
type misuse struct{ text string }

func (m misuse) Error() string { return m.text }

func misused(format string, a ...any) error { return misuse{fmt.Sprintf(format, a...)} }

// summed is the error of a command over many things, of which some failed. Their errors are already printed; first
// decides the exit code.
type summed struct {
	text  string
	first error
}

func (s summed) Error() string { return s.text }
func (s summed) Unwrap() error { return s.first }

// late is a time limit's error with a text of its own.
type late struct{ text string }

func (l late) Error() string { return l.text }
func (late) Unwrap() error   { return context.DeadlineExceeded }

// outcome is a command's error with its exit code.
type outcome struct {
	error
	code   int
	server string
}

// ended gives a command's error its exit code.
func (s *session) ended(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[stopped](err); ok {
		return err
	}
	code := exitOf(err)
	switch _, told := errors.AsType[late](err); {
	case code == exitUsage:
		return err
	case code == exitTimeout && !told && !errors.Is(err, client.ErrOutcomeUnknown) && s.global.timeout > 0:
		err = late{"not done within " + short(s.global.timeout) + " (--timeout)"}
	}
	return outcome{err, code, s.server}
}

// exitOf returns the exit code of an error. A refusal by the client itself counts as wrong usage.
func exitOf(err error) int {
	_, wrong := errors.AsType[misuse](err)
	refused, answered := errors.AsType[*client.Error](err)
	_, failed := errors.AsType[*client.JobFailedError](err)
	_, cancelled := errors.AsType[*client.JobCancelledError](err)
	_, expired := errors.AsType[*client.JobExpiredError](err)
	_, stays := errors.AsType[*client.FlowError](err)
	_, stuck := errors.AsType[*client.BatchError](err)
	switch {
	case wrong, !answered && errors.Is(err, client.ErrInvalid):
		return exitUsage
	case failed, cancelled, expired, stays, stuck:
		return exitJob
	case answered && refused.Unknown, errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case answered && stranger(refused):
		return exitUnavailable
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, client.ErrUnavailable):
		return exitUnavailable
	}
	return exitError
}

// tell prints the error: the message, the error of each field, the advice, and the call's id in the server's log.
func (o outcome) tell(w io.Writer) {
	line := func(format string, a ...any) { fmt.Fprintln(w, clean(fmt.Sprintf(format, a...))) }
	e, refused := errors.AsType[*client.Error](o.error)
	if many, ok := errors.AsType[summed](o.error); ok {
		line("tierq: %s", many.text)
		if refused && stranger(e) {
			line("tierq: %s", notTierq(o.server))
		}
		return
	}
	if refused && nobodyThere(e) {
		line("tierq: no tierq server at %s: start one with `tierq serve`, or point --server / TIERQ_URL to yours", o.server)
		return
	}
	if !refused {
		line("tierq: %s", o.error)
		return
	}
	if stranger(e) {
		line("tierq: %s (%s): point --server / TIERQ_URL to a server that does", notTierq(o.server), o.Error())
		if e.Status >= 300 && e.Status < 400 {
			line("  it redirects, and tierq follows no redirect: name the address to which it redirects")
		}
	} else {
		line("tierq: %s%s", strings.TrimSuffix(o.Error(), e.Error()), headline(e))
	}
	for _, f := range e.Fields {
		line("  %s: %s", cmp.Or(f.Field, "body"), f.Reason)
	}
	switch {
	case e.Unknown && e.JobID != "":
		line("  find out: tierq poll %s", e.JobID)
	case e.Unknown && e.Key != "":
		line("  the same command again with --idempotency-key %s is safe", e.Key)
	case e.Unknown && e.Detail == "":
		line("  check whether it was done before you repeat it")
	case errors.Is(e, client.ErrUnauthorized):
		line("  set the API key with --token or TIERQ_TOKEN")
	case errors.Is(e, client.ErrChanged):
		line("  another caller changed it at the same time: read it again, then try again")
	case e.RetryAfter > 0:
		line("  try again in %s", short(e.RetryAfter))
	}
	if e.TraceID != "" {
		line("  trace id: %s", e.TraceID)
	}
}

// stranger reports whether an answer comes from another server than tierq: it is no success that the client
// understands, and no refusal with one of tierq's error codes. Some statuses do not count, because a proxy in
// front of tierq answers with them on its own: access denied, too many or too large requests, tierq is away.
func stranger(e *client.Error) bool {
	switch e.Status {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return false
	}
	return e.Code == "" && (e.Status < 500 || e.Status == http.StatusNotImplemented)
}

// notTierq returns the message about a server that is not tierq.
func notTierq(server string) string { return "the server at " + server + " does not speak tierq's API" }

// nobodyThere reports whether the connection itself failed.
func nobodyThere(e *client.Error) bool {
	op, ok := errors.AsType[*net.OpError](e.Err)
	return ok && op.Op == "dial" && !e.Unknown && !errors.Is(e.Err, context.DeadlineExceeded)
}

// brief returns an error as one line for lists, without the command's verb.
func brief(err error) string {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return clean(err.Error())
	}
	text := headline(e)
	for _, f := range e.Fields {
		text += fmt.Sprintf(" [%s: %s]", cmp.Or(f.Field, "body"), f.Reason)
	}
	return clean(text)
}

// headline returns an error without its fields, which its detail may repeat.
func headline(e *client.Error) string {
	plain := *e
	if len(e.Fields) > 0 {
		plain.Detail = ""
	}
	return plain.Error()
}
