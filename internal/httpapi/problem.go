package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"github.com/tierq/tierq/internal/job"
)

// problemBody is the body of an error: it has the members of RFC 9457 and those of the seed.
type problemBody struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"`
	ErrorCode string       `json:"errorCode"`
	Message   string       `json:"message"`
	Timestamp string       `json:"timestamp"`
	TraceID   string       `json:"traceId"`
	JobID     job.ID       `json:"jobId,omitzero"`
	Errors    []fieldError `json:"errors,omitempty"`
}

var (
	problemType = []string{"application/problem+json"}
	bearer      = []string{"Bearer"}
)

// gone is the status in the log for a client that left before its answer. It is never sent.
const gone = 499

// fail answers with an error. The cause of an internal error goes to the log only.
func (a *api) fail(c *gin.Context, err error) {
	ctx := c.Request.Context()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		c.Status(gone)
		c.Abort()
		return
	}
	p, known := explain(err)
	if !known {
		a.Log.ErrorContext(ctx, "request failed", "route", c.FullPath(), "err", err, "trace_id", traceOf(c))
	}
	if p.kind == rateLimited {
		a.hold(ctx)
	}
	h := c.Writer.Header()
	h["Content-Type"] = problemType
	switch p.kind {
	case unauthorized:
		h["Www-Authenticate"] = bearer
	case systemUnhealthy, queueFull, rateLimited, submitsPaused:
		h.Set("Retry-After", strconv.Itoa(retryAfter(err)))
	case outcomeUnknown, changeUnknown:
		if p.jobID != "" {
			h.Set("Location", pollPath+string(p.jobID))
		}
	}
	if p.close {
		h.Set("Connection", "close")
	}
	body := a.bodyOf(c, p)
	text, err := json.Marshal(body, lenient)
	if err != nil { // cannot happen: lenient takes any text
		a.Log.ErrorContext(ctx, "encode problem", "err", err, "trace_id", traceOf(c))
		text = nil
	}
	c.Writer.WriteHeader(p.kind.status)
	_, _ = c.Writer.Write(text) // fails only if the client has left
	c.Abort()
}

// bodyOf returns the body of an error.
func (a *api) bodyOf(c *gin.Context, p *problem) *problemBody {
	body := &problemBody{
		Type: "about:blank", Title: http.StatusText(p.kind.status), Status: p.kind.status, Detail: p.detail,
		ErrorCode: p.kind.code, Message: p.kind.message, Timestamp: stamp(a.Now()), TraceID: traceOf(c), JobID: p.jobID,
		Errors: p.fields,
	}
	if body.Detail == "" {
		body.Detail = body.Message
	}
	return body
}

// problemOf returns the error of one entry of a list. The cause of an internal error goes to the log only.
func (a *api) problemOf(c *gin.Context, err error) *problemBody {
	p, known := explain(err)
	if !known {
		a.Log.ErrorContext(c.Request.Context(), "an entry of a list failed", "route", c.FullPath(), "err", err,
			"trace_id", traceOf(c))
	}
	return a.bodyOf(c, p)
}
