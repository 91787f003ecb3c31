package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

const (
	pollPath    = "/result/poll?jobId="
	defaultType = "SIMULATION"
)

// The headers of a 202; shared, never written to.
var (
	jsonType  = []string{"application/json"}
	oneSecond = []string{"1"}
)

// submit is POST /:tier/submit.
func (a *api) submit(c *gin.Context) error {
	plan, ok := a.tier(c.Param("tier"))
	if !ok {
		return &problem{kind: unknownTier}
	}
	if _, sent := c.Request.Header["Idempotency-Key"]; sent {
		return invalid("Idempotency-Key", "this header is not served yet, and is not ignored: without it the same job may be accepted twice")
	}
	body, err := a.readBody(c)
	if err != nil {
		return err
	}
	asked, err := decodeSubmit(body)
	if err != nil {
		return err
	}
	if err := a.check(&asked, plan); err != nil {
		return err
	}
	id, err := a.Submit.Submit(c.Request.Context(), job.Submission{
		Tier: plan.Tier, Type: asked.typ, Payload: asked.payload, MaxRetries: asked.maxRetries, TraceID: traceOf(c),
	})
	if errors.Is(err, job.ErrFateUnknown) {
		return &problem{kind: outcomeUnknown, jobID: id}
	}
	if err != nil {
		return err
	}
	a.accepted(c, id)
	return nil
}

// accepted writes the 202 in the seed's exact shape. An id is hexadecimal and a stamp is digits: nothing needs escaping.
func (a *api) accepted(c *gin.Context, id job.ID) {
	h := c.Writer.Header()
	h["Content-Type"] = jsonType
	h["Location"] = []string{pollPath + string(id)}
	h["Retry-After"] = oneSecond
	out := make([]byte, 0, 160)
	out = append(out, `{"apiResponseData":{"jobId":"`...)
	out = append(out, id...)
	out = append(out, `","currentJobStatus":"PENDING"},"timestamp":"`...)
	out = a.Now().UTC().AppendFormat(out, stampFormat)
	out = append(out, `"}`...)
	c.Writer.WriteHeader(http.StatusAccepted)
	_, _ = c.Writer.Write(out) // a client that left polls, or it does not
}

// tier finds the plan of a path segment, which must be the tier's name in lower case, byte for byte.
func (a *api) tier(segment string) (job.Plan, bool) {
	var name [31]byte
	if len(segment) > len(name) {
		return job.Plan{}, false
	}
	for i := range len(segment) {
		c := segment[i]
		switch {
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		case '0' <= c && c <= '9', c == '_':
		default:
			return job.Plan{}, false
		}
		name[i] = c
	}
	return a.Plans.Plan(job.Tier(name[:len(segment)]))
}

// check holds a body that is well-formed to the plan and to its type.
func (a *api) check(asked *asked, plan job.Plan) error {
	if len(asked.payload) > a.PayloadLimit {
		return tooLarge(fmt.Sprintf("the payload has %d bytes; at most %d are taken", len(asked.payload), a.PayloadLimit))
	}
	if asked.maxRetries > plan.MaxRetries {
		return invalid("maxRetries", fmt.Sprintf("may lower the tier's %d, not raise it", plan.MaxRetries))
	}
	err := a.Types.Check(asked.typ, asked.payload)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, job.ErrUnknownType):
		known := "known types: " + strings.Join(a.Types.Types(), ", ")
		return &problem{kind: unknownJobType, detail: known, fields: []fieldError{{"type", known}}}
	case errors.Is(err, job.ErrBadPayload):
		fields := payloadFields(err)
		if len(fields) == 0 {
			fields = []fieldError{{"payload", "does not fit the type"}}
		}
		return &problem{kind: invalidPayload, detail: fields[0].Field + ": " + fields[0].Reason, fields: fields}
	}
	return fmt.Errorf("check payload of %s: %w", asked.typ, err)
}
