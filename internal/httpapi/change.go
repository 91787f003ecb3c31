package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// The advice to a caller whose change may or may not have been made.
const (
	cancelInDoubt  = "The job may or may not have been cancelled. Poll it, or cancel it again: the answer is the same."
	requeueInDoubt = "The job may or may not be requeued. Poll it, or repeat this with the same Idempotency-Key, which " +
		"requeues it once. Without a key, a 409 to the second request may mean that the first one requeued it."
)

// operateInDoubt is the same of the changes that may be repeated without a key.
const operateInDoubt = "It may or may not have been done. Send it again: it is done once, and the answer is the same."

// noFields is the shape of a body that has no fields: {}. Such a request may also have no body.
var noFields = shape[struct{}]{}

// jobChange is what a request may say about its change of a job: the reason. A requeue may also say that the jobs of
// its flow which were cancelled because of the job come back with it.
type jobChange struct {
	reason  string
	cascade bool
}

var (
	jobChangeBody  = shape[jobChange]{members: map[string]member[jobChange]{"reason": (*jobChange).setReason}}
	requeueOneBody = shape[jobChange]{members: map[string]member[jobChange]{
		"reason":  (*jobChange).setReason,
		"cascade": func(j *jobChange, v jsontext.Value) (err error) { j.cascade, err = truth(v); return err },
	}}
	jobChangeParams = params[jobChange]{
		"reason": func(j *jobChange, value string) (err error) { j.reason, err = readReason(value); return err },
	}
)

func (j *jobChange) setReason(v jsontext.Value) (err error) {
	if v.Kind() != '"' {
		return reason("must be a string")
	}
	j.reason, err = readReason(text(v))
	return err
}

// readReason checks the reason of a change: one line of text, at most job.MaxReason characters. An empty text is no
// reason, because forms send one if nothing was typed.
func readReason(value string) (string, error) {
	if !utf8.ValidString(value) || utf8.RuneCountInString(value) > job.MaxReason ||
		strings.ContainsFunc(value, unicode.IsControl) {
		return "", reason("must be one line of at most " + strconv.Itoa(job.MaxReason) + " characters")
	}
	return strings.TrimSpace(value), nil
}

// changes reads a request that changes a job: the job's id and the reason. A DELETE may give the reason in the
// query or in the body, other methods only in the body. For a job of another caller the error is job.ErrNotFound as
// a *problem.
func (a *api) changes(c *gin.Context) (id job.ID, asked jobChange, err error) {
	return a.changesAs(c, &jobChangeBody)
}

// changesAs does what changes does, for a body of another shape.
func (a *api) changesAs(c *gin.Context, shape *shape[jobChange]) (id job.ID, asked jobChange, err error) {
	if c.Request.Method == http.MethodDelete {
		err = jobChangeParams.read(c.Request.URL.RawQuery, &asked)
	} else {
		err = noQuery(c)
	}
	if err != nil {
		return "", asked, err
	}
	if id, err = pathID(c); err != nil {
		return "", asked, err
	}
	body, err := a.readBody(c)
	if err == nil && body != nil {
		err = shape.read(body, &asked)
	}
	if err != nil {
		return "", asked, err
	}
	if err := a.known(c, id); err != nil {
		return "", asked, aboutJob(err, id)
	}
	return id, asked, nil
}

// cancel serves DELETE /admin/jobs/{id}, DELETE /api/jobs/{id} and POST /api/jobs/{id}/cancel. A running job is told to
// stop: it ends CANCELLED, whatever its handler returns.
func (a *api) cancel(c *gin.Context) error {
	id, asked, err := a.changes(c)
	if err != nil {
		return err
	}
	word, err := a.Jobs.Cancel(c.Request.Context(), id, asked.reason)
	a.byOperator(c, "job.cancel", id, &struct {
		Word   job.Word `json:"answer,omitzero"`
		Reason string   `json:"reason,omitzero"`
	}{word, asked.reason}, err)
	if err != nil {
		return aboutJob(inDoubt(err, cancelInDoubt), id)
	}
	body := struct {
		JobID           job.ID     `json:"jobId"`
		Status          job.Status `json:"status"`
		CancelRequested bool       `json:"cancelRequested,omitzero"`
	}{JobID: id, Status: job.Cancelled}
	switch word {
	case job.WasCancelled:
		return write(c, http.StatusOK, &body)
	case job.Cancel:
		body.Status, body.CancelRequested = job.Processing, true
		return write(c, http.StatusAccepted, &body)
	}
	return fmt.Errorf("cancel %s: answered %q", id, word)
}

// kill serves POST /admin/jobs/{id}/kill: a waiting job becomes a dead letter.
func (a *api) kill(c *gin.Context) error {
	return a.operate(c, "job.kill", job.Failed, a.Jobs.Kill)
}

// hasten serves POST /admin/jobs/{id}/hasten: a scheduled job becomes ready now. Only the log of changes has the
// reason.
func (a *api) hasten(c *gin.Context) error {
	return a.operate(c, "job.hasten", job.Pending,
		func(ctx context.Context, id job.ID, _ string) error { return a.Jobs.Hasten(ctx, id) })
}

// dismiss serves POST /admin/dead/{id}/dismiss: a dead letter leaves the list without a new life.
func (a *api) dismiss(c *gin.Context) error {
	return a.operate(c, "dead.dismiss", job.Failed, a.Requeue.Dismiss)
}

// operate serves a change that a repeat does not make twice. then is the job's status after it.
func (a *api) operate(
	c *gin.Context, action string, then job.Status, do func(ctx context.Context, id job.ID, reason string) error,
) error {
	id, asked, err := a.changes(c)
	if err != nil {
		return err
	}
	err = do(c.Request.Context(), id, asked.reason)
	a.byOperator(c, action, id, because(asked.reason), err)
	if err != nil {
		return aboutJob(inDoubt(err, operateInDoubt), id)
	}
	return write(c, http.StatusOK, &struct {
		JobID  job.ID     `json:"jobId"`
		Status job.Status `json:"status"`
	}{id, then})
}

// requeue serves POST /jobs/{id}/retry and POST /admin/jobs/{id}/resubmit: it requeues a FAILED job. The
// Idempotency-Key names the request: a repeat with the same key does not requeue the job a second time.
func (a *api) requeue(c *gin.Context) error {
	id, asked, err := a.changesAs(c, &requeueOneBody)
	if err != nil {
		return err
	}
	key, err := keyFrom(c.Request.Header)
	if err != nil {
		return err
	}
	caller := callerOf(c)
	request := job.Request{ID: requestID(caller.Owner(), key), Reason: asked.reason, Cascade: asked.cascade}
	if !caller.Admin() {
		err = a.requeueOwn(c, id, request)
	} else if err = a.Requeue.Requeue(c.Request.Context(), id, request); err != nil {
		err = inDoubt(err, requeueInDoubt)
	}
	a.byOperator(c, "job.requeue", id, because(asked.reason), err)
	if err != nil {
		return aboutJob(err, id)
	}
	c.Writer.Header().Set("Location", pollPath+string(id))
	return write(c, http.StatusAccepted, &struct {
		JobID   job.ID     `json:"jobId"`
		Status  job.Status `json:"status"`
		TraceID string     `json:"traceId"`
	}{id, job.Pending, traceOf(c)})
}

// requeueOwn requeues a job for its submitter. The limits are those of a submit: the caller's tiers, types and
// queues, the tier's share of the capacity, and the caller's quota. The type is checked because a job without an owner
// may have any type. A job with a callbackUrl needs the type CALLBACK as well.
func (a *api) requeueOwn(c *gin.Context, id job.ID, request job.Request) error {
	caller := callerOf(c)
	j, err := a.find(c, id)
	if err == nil {
		err = mayTier(c, j.Tier)
	}
	if err == nil {
		err = mayType(caller, j.Type)
	}
	if err == nil {
		err = maySubmitTo(caller, j.QueueName())
	}
	if err == nil && j.Type != job.CallbackType && mayCallBack(caller) != nil {
		if j, _, err = a.Jobs.Whole(c.Request.Context(), j); err == nil && j.CallbackURL != "" {
			err = mayCallBack(caller)
		}
	}
	if err != nil {
		return err
	}
	err = a.Requeue.RequeueOwn(c.Request.Context(), id, request, caller.Key.InFlight)
	if errors.Is(err, job.ErrQueueFull) {
		p, _ := explain(err)
		return &problem{kind: queueFull, detail: p.detail, retry: a.Submit.Hint(j.Tier)}
	}
	return inDoubt(
		a.overQuota(err, &job.Submission{Tier: j.Tier, Owner: caller.Owner(), Quota: caller.Key.InFlight}),
		requeueInDoubt,
	)
}

// because returns what the log of changes records of a change besides its job: the reason; nil if the caller gave
// none.
func because(why string) any {
	if why == "" {
		return nil
	}
	return &struct {
		Reason string `json:"reason"`
	}{why}
}

// requestID returns the id of a requeue request: derived from the caller's Idempotency-Key, or random if there is
// none.
func requestID(owner, key string) string {
	if key != "" {
		return ownKey(owner, key)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // crypto/rand never fails
	return hex.EncodeToString(id[:])
}
