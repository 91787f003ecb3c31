package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// kind is one row of the contract's error table.
type kind struct {
	status  int
	code    string
	message string
}

// The kinds of refusal. The messages of SYSTEM_UNHEALTHY and QUEUE_FULL are the seed's, to the letter.
var (
	invalidRequest = &kind{http.StatusBadRequest, "INVALID_REQUEST", "The request is not valid."}
	unauthorized   = &kind{http.StatusUnauthorized, "UNAUTHORIZED",
		"This needs a valid API key in the header Authorization: Bearer tq_..."}
	forbidden        = &kind{http.StatusForbidden, "FORBIDDEN", "You may not do this."}
	jobNotFound      = &kind{http.StatusNotFound, "JOB_NOT_FOUND", "There is no job with this id."}
	noSuchBatch      = &kind{http.StatusNotFound, "BATCH_NOT_FOUND", "There is no batch with this id."}
	batchSealed      = &kind{http.StatusConflict, "BATCH_SEALED", "The batch is sealed: it takes no more members."}
	unknownTier      = &kind{http.StatusNotFound, "UNKNOWN_TIER", "There is no such tier."}
	unknownQueue     = &kind{http.StatusNotFound, "UNKNOWN_QUEUE", "There is no such queue."}
	notFound         = &kind{http.StatusNotFound, "NOT_FOUND", "This address does not exist."}
	methodNotAllowed = &kind{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "This address does not serve this method."}
	wrongState       = &kind{http.StatusConflict, "INVALID_STATE_TRANSITION", "The job's state does not allow that."}
	leaseLost        = &kind{http.StatusConflict, "LEASE_LOST", "The lease is not held any more; nothing was changed."}
	queueInUse       = &kind{http.StatusConflict, "INVALID_STATE_TRANSITION", "The queue has jobs that have not ended."}
	scheduleState    = &kind{http.StatusConflict, "INVALID_STATE_TRANSITION", "The schedule's state does not allow that."}
	noSuchSchedule   = &kind{http.StatusNotFound, "UNKNOWN_SCHEDULE", "There is no such schedule."}
	uniqueTaken      = &kind{http.StatusConflict, "UNIQUE_TAKEN", "Another job holds the unique key."}
	noGateway        = &kind{http.StatusConflict, "INVALID_STATE_TRANSITION", "This server has no gateway passwords."}
	needsAdmin       = &kind{http.StatusConflict, "INVALID_STATE_TRANSITION", "The server's state does not allow that."}
	changed          = &kind{http.StatusPreconditionFailed, "PRECONDITION_FAILED",
		"Another caller changed it in the meantime."}
	payloadTooLarge  = &kind{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", "The request is too large."}
	unsupportedMedia = &kind{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE",
		"The body must be JSON in UTF-8, not compressed."}
	invalidPayload    = &kind{http.StatusUnprocessableEntity, "INVALID_PAYLOAD", "The payload does not fit the job type."}
	unknownJobType    = &kind{http.StatusUnprocessableEntity, "UNKNOWN_JOB_TYPE", "There is no such job type."}
	unknownQueueAsked = &kind{http.StatusUnprocessableEntity, "UNKNOWN_QUEUE", "There is no such queue."}
	badScope          = &kind{http.StatusUnprocessableEntity, "NOT_PAUSABLE", "This cannot be paused."}
	keyMismatch       = &kind{http.StatusUnprocessableEntity, "IDEMPOTENCY_MISMATCH",
		"This Idempotency-Key was used with another body."}
	rateLimited   = &kind{http.StatusTooManyRequests, "RATE_LIMITED", "Too many requests. Please try again later."}
	internalError = &kind{http.StatusInternalServerError, "INTERNAL",
		"Internal error. The server's log has the cause under this trace id."}
	systemUnhealthy = &kind{http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY",
		"System is currently unavailable due to high load. Please try again later."}
	queueFull = &kind{http.StatusServiceUnavailable, "QUEUE_FULL",
		"Request cannot be accepted at the moment due to high load. Please try again later."}
	submitsPaused = &kind{http.StatusServiceUnavailable, "PAUSED",
		"Such jobs are paused, and not accepted meanwhile. Please try again later."}
	outcomeUnknown = &kind{http.StatusGatewayTimeout, "OUTCOME_UNKNOWN",
		"The job may or may not have been accepted. Poll it before you submit it again."}
	changeUnknown = &kind{http.StatusGatewayTimeout, "OUTCOME_UNKNOWN",
		"The change may or may not have been made. Check, or send it again."}
)

// table maps the errors of the other rooms to the kinds that users see. An error that is not in the table is
// INTERNAL.
var table = []struct {
	err    error
	kind   *kind
	detail string // "" = the kind's message
}{
	{job.ErrUnauthorized, unauthorized, ""},
	{job.ErrForbidden, forbidden, ""},
	{job.ErrRateLimited, rateLimited, ""},
	{job.ErrQuota, rateLimited, "this key has reached its quota of jobs that have not ended"},
	{job.ErrOpenBatches, rateLimited, openBatches},
	{job.ErrLivingFull, queueFull, tooManyLive},
	{job.ErrLineFull, rateLimited, "the key of the job's line has as many jobs as its limit allows"},
	{job.ErrOwnLimit, queueFull, "the job's queue has as many jobs as it may have that no worker has claimed"},
	{job.ErrQueueFull, queueFull, ""},
	{job.ErrPaused, submitsPaused, ""},
	{job.ErrUnhealthy, systemUnhealthy, ""},
	{job.ErrFateUnknown, outcomeUnknown, ""},
	{job.ErrNotFound, jobNotFound, ""},
	{job.ErrUnknownTier, unknownTier, ""},
	{job.ErrUnknownQueue, unknownQueue, ""},
	{job.ErrUnknownType, unknownJobType, ""},
	{job.ErrBadPayload, invalidPayload, ""},
	{job.ErrBadID, invalidRequest, ""},
	{job.ErrBadLease, invalidRequest, "lease: is no lease"},
	{job.ErrLeaseLost, leaseLost, ""},
	{job.ErrMismatch, keyMismatch, ""},
	{job.ErrNoBatch, noSuchBatch, ""},
	{job.ErrSealed, batchSealed, ""},
	{job.ErrTaken, uniqueTaken, "another job holds the unique key: nothing was accepted"},
	{job.ErrWrongState, wrongState, ""},
	{job.ErrChanged, changed, ""},
	{job.ErrNoSchedule, noSuchSchedule, ""},
	{job.ErrNoArtifact, notFound, ""},
	{job.ErrFlowNotFound, notFound, "there is no such flow"},
	{job.ErrNoKey, notFound, "there is no such key"},
	{job.ErrNoGateway, noGateway, job.ErrNoGateway.Error()},
	{
		job.ErrNotKept,
		systemUnhealthy,
		"SQL does not answer, so the reason cannot be stored and the change was not made; without a reason it needs no SQL",
	},
	{job.ErrUnavailable, systemUnhealthy, aStoreIsAway},
	{job.ErrAmbiguous, systemUnhealthy, aStoreIsAway}, // for a read; inDoubt handles a change
}

const tooManyLive = "too many jobs of this tier have not ended (they wait, are scheduled, run, or wait for a retry), " +
	"or too many bytes of them"

var openBatches = fmt.Sprintf("%d batches of this key have not ended, and no key may have more: seal or cancel those that "+
	"get no more members", job.MaxOpenBatches)

const aStoreIsAway = "a store that this request needs does not answer"

// fieldError names what is wrong with one field, parameter or header.
type fieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// problem is an error for a user: all its fields may be shown.
type problem struct {
	kind   *kind
	detail string // "" = the kind's message
	jobID  job.ID
	fields []fieldError
	close  bool          // close the connection, without reading the rest of the request
	retry  time.Duration // how long to wait before the next try; 0 = not set
}

func (p *problem) Error() string { return p.kind.code + ": " + p.detail }

// RetryIn returns how long to wait before the next try.
func (p *problem) RetryIn() time.Duration { return p.retry }

var (
	errNoRoute = &problem{kind: notFound}
	errMethod  = &problem{kind: methodNotAllowed}
)

// invalid returns an INVALID_REQUEST about one field.
func invalid(field, reason string) *problem {
	return &problem{kind: invalidRequest, detail: field + ": " + reason, fields: []fieldError{{field, reason}}}
}

// explain returns the problem that a user is shown for an error. known is false for an internal error.
func explain(err error) (p *problem, known bool) {
	if errors.As(err, &p) {
		return p, true
	}
	for _, row := range table {
		if errors.Is(err, row.err) {
			p := &problem{kind: row.kind, detail: row.detail, fields: payloadFields(err)}
			if row.kind == submitsPaused {
				p.detail = told(err, job.ErrPaused)
			}
			var taken *job.TakenError
			if errors.As(err, &taken) {
				p.jobID = taken.ID
			}
			return p, true
		}
	}
	return &problem{kind: internalError}, false
}

// payloadFields returns the fields that a payload's check named, also from joined errors. It stops at maxErrors
// fields, so that the answer does not grow with the payload.
func payloadFields(err error) []fieldError {
	switch e := err.(type) { //nolint:errorlint // it walks the whole tree by itself; errors.As would stop at the first
	case *job.PayloadError:
		return []fieldError{{e.Field, e.Reason}}
	case interface{ Unwrap() []error }:
		var all []fieldError
		for _, one := range e.Unwrap() {
			if all = append(all, payloadFields(one)...); len(all) >= maxErrors {
				return all[:maxErrors]
			}
		}
		return all
	case interface{ Unwrap() error }:
		return payloadFields(e.Unwrap())
	}
	return nil
}

// inDoubt turns job.ErrAmbiguous into the answer to a change that may have been made. advice says what to do about
// it. Any other error, and that of a caller who has left, is returned as it is.
func inDoubt(err error, advice string) error {
	if !errors.Is(err, job.ErrAmbiguous) || errors.Is(err, context.Canceled) {
		return err
	}
	return &problem{kind: changeUnknown, detail: advice}
}

// listError turns job.ErrBadCursor into an error about the parameter cursor. Other errors are returned as they are.
func listError(err error) error {
	if errors.Is(err, job.ErrBadCursor) {
		return invalid("cursor", "is not a cursor of this list")
	}
	return err
}

// aboutJob adds the job's id to an error that a user is shown. A 503 and an internal error are returned as they
// are.
func aboutJob(err error, id job.ID) error {
	p, known := explain(err)
	if !known || p.kind.status == http.StatusServiceUnavailable {
		return err
	}
	p.jobID = id
	var state *job.StateError
	switch p.kind {
	case wrongState:
		if p.detail = told(err, job.ErrWrongState); errors.As(err, &state) {
			p.detail = state.Error()
		}
	case notFound:
		p.detail = told(err, job.ErrNoArtifact)
	}
	return p
}

// mostTold is how many bytes told returns at most: enough for the whole reason of a pause and the text about it.
const mostTold = 1000

// told returns the part of err's text that begins with the text of known. The part before it says which calls the error
// passed through, which is not for users.
func told(err, known error) string {
	_, behind, found := strings.Cut(err.Error(), known.Error())
	if !found {
		return ""
	}
	return shortenTo(mostTold, known.Error()+behind)
}

// retryAfter returns the wait that an error asks for, in whole seconds, rounded up and at least one.
func retryAfter(err error) int {
	var refusal interface{ RetryIn() time.Duration }
	if !errors.As(err, &refusal) {
		return 1
	}
	return seconds(refusal.RetryIn())
}

func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }
