package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// What to do about a change whose answer was lost.
const (
	cancelInDoubt  = "The job may or may not have been cancelled. Poll it, or cancel it again: the answer is the same."
	requeueInDoubt = "The job may or may not get a new life. Poll it, or send this again: under the same Idempotency-Key it is the same promise; " +
		"without one, a 409 may be about this very request."
)

// noFields is the body of a request that needs none: nothing, or {}.
var noFields = shape[struct{}]{}

// changes reads a request that changes a job and says nothing more than which. Somebody else's job is not found: job.ErrNotFound, as a *problem.
func (a *api) changes(c *gin.Context) (job.ID, error) {
	id, err := bareID(c)
	if err != nil {
		return "", err
	}
	body, err := a.readBody(c)
	if err == nil && body != nil {
		err = noFields.read(body, &struct{}{})
	}
	if err != nil {
		return "", err
	}
	if err := a.known(c, id); err != nil {
		return "", aboutJob(err, id)
	}
	return id, nil
}

// cancel is DELETE /admin/jobs/{id}, DELETE /api/jobs/{id} and POST /api/jobs/{id}/cancel. What runs is told to stop: it ends CANCELLED,
// whatever its handler returns.
func (a *api) cancel(c *gin.Context) error {
	id, err := a.changes(c)
	if err != nil {
		return err
	}
	word, err := a.Jobs.Cancel(c.Request.Context(), id)
	a.byOperator(c, "job.cancel", id, &struct {
		Word job.Word `json:"answer,omitzero"`
	}{word}, err)
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

// requeue is POST /jobs/{id}/retry and POST /admin/jobs/{id}/resubmit: a FAILED job gets a new life. The Idempotency-Key names the
// request: sent again with the same one, it is the same promise and not a second life.
func (a *api) requeue(c *gin.Context) error {
	id, err := a.changes(c)
	if err != nil {
		return err
	}
	key, err := keyFrom(c.Request.Header)
	if err != nil {
		return err
	}
	err = a.Requeue.Requeue(c.Request.Context(), id, requestID(callerOf(c).Owner(), key))
	a.byOperator(c, "job.requeue", id, nil, err)
	if err != nil {
		return aboutJob(inDoubt(err, requeueInDoubt), id)
	}
	c.Writer.Header().Set("Location", pollPath+string(id))
	return write(c, http.StatusAccepted, &struct {
		JobID   job.ID     `json:"jobId"`
		Status  job.Status `json:"status"`
		TraceID string     `json:"traceId"`
	}{id, job.Pending, traceOf(c)})
}

// requestID names one request: by its caller's key, else by chance.
func requestID(owner, key string) string {
	if key != "" {
		return ownKey(owner, key)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, says crypto/rand
	return hex.EncodeToString(id[:])
}
