package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

type pollBody struct {
	Data      polled `json:"apiResponseData"`
	Timestamp string `json:"timestamp"`
}

// polled is a job as its owner sees it. Absent values are null, so that every answer has the same members.
type polled struct {
	JobID        job.ID         `json:"jobId"`
	Status       job.Status     `json:"currentJobStatus"`
	Tier         job.Tier       `json:"jobTier"`
	Type         string         `json:"type"`
	RetryCount   int            `json:"retryCount"`
	MaxRetries   int            `json:"maxRetries"`
	ArrivedAt    *string        `json:"arrivedAt"`
	FirstTriedAt *string        `json:"firstTriedAt"`
	CompletedAt  *string        `json:"completedAt"`
	Position     *int64         `json:"position"`
	ETASeconds   *int64         `json:"etaSeconds"`
	Result       jsontext.Value `json:"result"`
	FailureCause *job.Cause     `json:"failureCause"`
	LastError    *string        `json:"lastError"`
	TraceID      *string        `json:"traceId"`
}

// lenient lets stored text through as it is: what was accepted once is shown, not judged again.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var revalidate = []string{"private, no-cache"}

// poll is GET /result/poll?jobId=.
func (a *api) poll(c *gin.Context) error {
	id, err := pollID(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	j, err := a.Find.Find(c.Request.Context(), id)
	if err != nil {
		p, known := explain(err)
		if known && p.kind == jobNotFound {
			return &problem{kind: jobNotFound, jobID: id}
		}
		return err
	}
	tag := etag(&j)
	h := c.Writer.Header()
	if matches(c.Request.Header["If-None-Match"], tag) {
		h["Etag"], h["Cache-Control"] = []string{tag}, revalidate
		c.Writer.WriteHeader(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return nil
	}
	body := pollBody{Timestamp: stamp(a.Now()), Data: polled{
		JobID: j.ID, Status: j.Status.Shown(), Tier: j.Tier, Type: j.Type, RetryCount: j.RetryCount, MaxRetries: j.MaxRetries,
		ArrivedAt: when(j.ArrivedAt), FirstTriedAt: when(j.FirstTriedAt), CompletedAt: when(j.EndedAt),
		Result: j.Result, FailureCause: orNull(j.Cause), LastError: orNull(j.LastError), TraceID: orNull(j.TraceID),
	}}
	text, err := json.Marshal(&body, lenient)
	if err != nil {
		return fmt.Errorf("encode job %s: %w", j.ID, err)
	}
	h["Etag"], h["Cache-Control"], h["Content-Type"] = []string{tag}, revalidate, jsonType
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(text) // a client that left asks again
	return nil
}

// pollID reads the one parameter. Others are refused, not ignored: a later version gives them a meaning.
func pollID(query string) (job.ID, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", &problem{kind: invalidRequest, detail: "the query cannot be read"}
	}
	for name := range values {
		if name != "jobId" {
			return "", invalid(shorten(name), "unknown parameter")
		}
	}
	switch ids := values["jobId"]; {
	case len(ids) == 0 || ids[0] == "":
		return "", invalid("jobId", "is missing")
	case len(ids) > 1:
		return "", invalid("jobId", "is there twice")
	default:
		id, err := job.ParseID(ids[0])
		if err != nil {
			return "", invalid("jobId", "is not a job id")
		}
		return id, nil
	}
}

// etag changes whenever a poll's answer would, but for its timestamp.
func etag(j *job.Job) string {
	b := make([]byte, 0, 48)
	b = append(b, `W/"`...)
	b = append(b, j.Status.Shown()...)
	for _, n := range [...]int{j.Attempt, j.RetryCount, j.Generation} {
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, '"'))
}

// matches compares weakly, as If-None-Match does: W/ does not count.
func matches(headers []string, tag string) bool {
	want := strings.TrimPrefix(tag, "W/")
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == want {
				return true
			}
		}
	}
	return false
}

func when(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}
