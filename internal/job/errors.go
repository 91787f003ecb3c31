package job

import (
	"errors"
	"fmt"
)

// These are the errors that packages exchange. httpapi's table gives each its status and code.
var (
	ErrBadID       = errors.New("not a job id")
	ErrNotFound    = errors.New("no such job")
	ErrUnknownTier = errors.New("no such tier")
	ErrUnknownType = errors.New("no such job type")
	ErrBadPayload  = errors.New("the payload does not fit the job type")
	ErrBadTiers    = errors.New("these tiers cannot be claimed together")
	ErrBadLease    = errors.New("not a lease")
	ErrLeaseLost   = errors.New("the lease is not held any more") // or it is another key's; nothing changed

	ErrBadCursor  = errors.New("not a cursor of this list")
	ErrWrongState = errors.New("the job's state does not allow that")
	ErrChanged    = errors.New("it was changed by somebody else meanwhile") // a compare-and-set failed
	ErrTaken      = errors.New("another job holds the unique key")          // a TakenError names it; not accepted
	ErrMismatch   = errors.New("the idempotency key was used with another body")
	ErrNoArtifact = errors.New("the job made no file")
	ErrNoBatch    = errors.New("no such batch") // or it is another owner's
	ErrSealed     = errors.New("the batch is sealed: it takes no more members")

	ErrQueueFull   = errors.New("the queue is full") // not accepted, and will not be
	ErrLivingFull  = fmt.Errorf("%w of jobs that live", ErrQueueFull)
	ErrOwnLimit    = fmt.Errorf("%w: its own limit", ErrQueueFull) // of a declared queue
	ErrLineFull    = fmt.Errorf("%w: the limit of its key", ErrQueueFull)
	ErrUnhealthy   = errors.New("the system is unhealthy")      // not accepted, and will not be
	ErrFateUnknown = errors.New("the outcome is not yet known") // sent; it may or may not have been accepted

	ErrUnauthorized = errors.New("no key, or none that opens anything") // names neither the key nor the fault
	ErrForbidden    = errors.New("this key does not open that")
	ErrRateLimited  = errors.New("too many requests")
	ErrQuota        = errors.New("this key has reached its quota")                 // not accepted, and will not be
	ErrOpenBatches  = errors.New("as many batches of this key are open as may be") // not stored, and will not be
	ErrNoKey        = errors.New("no such key")
	ErrNoGateway    = errors.New("TIERQ_GATEWAY_SECRET is not set, so keys have no passwords for gateways")

	ErrBadPlan    = errors.New("bad plan")
	ErrWrongSetup = errors.New("set-up differs from the running cluster's")

	ErrNotKept = errors.New("the reason cannot be kept now") // so the change was not made

	// ErrUnavailable means that the store did not execute the call (refused connection, LOADING, READONLY, out of
	// memory, ...).
	ErrUnavailable = errors.New("store unavailable")
	// ErrNoMemory means that the store is full and executes nothing that adds data. It comes with ErrUnavailable.
	ErrNoMemory = errors.New("the store has no memory left")
	// ErrDenied means that the store refuses our user, password or database. It comes with ErrUnavailable; waiting
	// does not help.
	ErrDenied = errors.New("the server refuses this user, password or database")

	// ErrUntrusted means that the store does not speak TLS, or has no trusted certificate. It comes with
	// ErrUnavailable; waiting does not help.
	ErrUntrusted = errors.New("no TLS, or not with a certificate that is trusted (TIERQ_CA_FILE names authorities of your own)")
	// ErrAmbiguous means that the call was sent and its answer never came: it may have been executed.
	ErrAmbiguous = errors.New("call sent, answer lost")
)

// Outage says whether an error means that a store did not answer, so that the fate of the call may be unknown. An
// answer that refuses a call is no outage.
func Outage(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrAmbiguous) }

// PayloadError is an ErrBadPayload that names the wrong field and the reason.
type PayloadError struct{ Field, Reason string }

func (e *PayloadError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrBadPayload) true.
func (e *PayloadError) Unwrap() error { return ErrBadPayload }
