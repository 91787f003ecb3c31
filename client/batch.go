package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// What one batch may hold; SubmitBatch cuts longer lists.
const (
	maxBatch      = 1000
	maxBatchBytes = 16 << 20
)

// Outcome is what became of one submission of a batch: a job, or an error.
type Outcome struct {
	Submitted
	// Err is nil for an accepted job. Otherwise it is what SubmitJob would have returned, or ErrNotSent.
	Err error
}

// SubmitBatch asks for many jobs with few requests: lists above 1000 or 16 MiB are cut into several, one after the
// other. Each job is accepted or refused on its own, and the outcomes stand in the order of the submissions. Refusals
// that may pass are tried again like those of a single submit. The error is nil if every submission got an answer, also
// a refusal; otherwise it is what ended the call, and the outcomes, always one per submission, say how far it came.
// Nothing is sent if one of the submissions cannot be encoded; then there are no outcomes.
func (c *Client) SubmitBatch(ctx context.Context, tier Tier, list []Submission) ([]Outcome, error) {
	path, err := tierPath(tier)
	if err != nil {
		return nil, fmt.Errorf("submit batch: %w", err)
	}
	entries := make([]entry, len(list))
	for i := range list {
		key := list[i].key()
		text, err := list[i].encode(key)
		if err != nil {
			return nil, fmt.Errorf("submit batch: submission %d: %w", i, err)
		}
		entries[i] = entry{at: i, key: key, text: text, trace: list[i].TraceID}
	}
	out := make([]Outcome, len(list))
	for i := range out {
		out[i].Err = ErrNotSent
	}
	for len(entries) > 0 {
		n := cut(entries)
		if err := c.submitChunk(ctx, path, entries[:n], out); err != nil {
			return out, err
		}
		entries = entries[n:]
	}
	return out, nil
}

// entry is one submission of a batch, encoded.
type entry struct {
	at         int // in the caller's list
	key, trace string
	text       []byte
}

// cut says how many entries go into one request. A trace id belongs to a request.
func cut(entries []entry) int {
	size := len("[]")
	for i := range entries {
		size += len(entries[i].text) + len(",")
		if i > 0 && (i == maxBatch || size > maxBatchBytes || entries[i].trace != entries[0].trace) {
			return i
		}
	}
	return len(entries)
}

// submitChunk sends one request, and sends again what was refused for a reason that may pass.
func (c *Client) submitChunk(ctx context.Context, path string, chunk []entry, out []Outcome) error {
	for made := 1; ; made++ {
		if err := c.sendChunk(ctx, path, chunk, out); err != nil {
			return err
		}
		left, wait := c.worthAnother(chunk, made, out)
		if len(left) == 0 || !rest(ctx, wait+c.draw(c.policy.bound(made))) {
			return nil // every one has its answer
		}
		chunk = left
	}
}

// worthAnother picks what was refused for a reason that may pass, and says how long the server wants to be left alone.
func (c *Client) worthAnother(chunk []entry, made int, out []Outcome) (left []entry, wait time.Duration) {
	for _, e := range chunk {
		if refused, ok := errors.AsType[*Error](out[e.at].Err); ok && c.policy.again(refused, made, true) {
			left = append(left, e)
			wait = max(wait, refused.RetryAfter)
		}
	}
	return left, wait
}

func (c *Client) sendChunk(ctx context.Context, path string, chunk []entry, out []Outcome) error {
	k := call{
		verb: "submit batch", method: http.MethodPost, path: path + "/submit/batch", changes: true,
		header: (&Submission{TraceID: chunk[0].trace}).headers(), body: join(chunk),
	}
	got, a, err := fetch[struct {
		Data []wireOutcome `json:"apiResponseData"`
	}](ctx, c, k)
	if err == nil && len(got.Data) != len(chunk) {
		e := &Error{Status: a.status, Unknown: true,
			Err: fmt.Errorf("%d answers to %d submissions", len(got.Data), len(chunk))}
		err = fmt.Errorf("submit batch: %w", e)
	}
	for i, e := range chunk {
		was, _ := errors.AsType[*Error](out[e.at].Err)
		unknown := was != nil && was.Unknown
		if err != nil {
			out[e.at].Err = keyed(err, e.key, unknown)
			continue
		}
		out[e.at] = got.Data[i].outcome(e.key, unknown, a.header)
	}
	return err
}

// wireOutcome is an entry of a batch's answer: the members of an accepted job, or those of an error.
type wireOutcome struct {
	JobID    string       `json:"jobId"`
	Status   Status       `json:"currentJobStatus"`
	Replayed bool         `json:"idempotencyReplayed"`
	Code     string       `json:"errorCode"`
	Message  string       `json:"message"`
	Detail   string       `json:"detail"`
	Fields   []FieldError `json:"errors"`
}

// outcome reads an entry; unknown says that an earlier try may have done it already.
func (w *wireOutcome) outcome(key string, unknown bool, h http.Header) Outcome {
	trace, after := h.Get("X-Trace-Id"), retryAfter(h)
	if w.Code == "" && w.JobID != "" {
		return Outcome{Submitted: Submitted{JobID: w.JobID, Status: w.Status, Replayed: w.Replayed, TraceID: trace,
			RetryAfter: after}}
	}
	e := &Error{
		Status: statusOf(w.Code), Code: w.Code, Message: w.Message, Detail: w.Detail, Fields: w.Fields, JobID: w.JobID,
		TraceID: trace, RetryAfter: after, Key: key,
	}
	e.Unknown = unknown || mayHaveHappened(e)
	return Outcome{Err: fmt.Errorf("submit: %w", e)}
}

// keyed is a batch's error as one submission's: with its own key.
func keyed(err error, key string, unknown bool) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	own := *e
	own.Key, own.Unknown = key, own.Unknown || unknown
	return fmt.Errorf("submit: %w", &own)
}

func join(chunk []entry) []byte {
	texts := make([][]byte, len(chunk))
	for i := range chunk {
		texts[i] = chunk[i].text
	}
	body := append([]byte{'['}, bytes.Join(texts, []byte{','})...)
	return append(body, ']')
}

// statusOf is the status that goes with a code: inside a batch's answer a refusal has no status of its own.
func statusOf(code string) int {
	switch code {
	case "INVALID_REQUEST":
		return http.StatusBadRequest
	case "UNAUTHORIZED":
		return http.StatusUnauthorized
	case "FORBIDDEN":
		return http.StatusForbidden
	case "UNKNOWN_TIER", "NOT_FOUND", "JOB_NOT_FOUND":
		return http.StatusNotFound
	case "PAYLOAD_TOO_LARGE":
		return http.StatusRequestEntityTooLarge
	case "INVALID_PAYLOAD", "UNKNOWN_JOB_TYPE", "IDEMPOTENCY_MISMATCH":
		return http.StatusUnprocessableEntity
	case "RATE_LIMITED":
		return http.StatusTooManyRequests
	case "SYSTEM_UNHEALTHY", "QUEUE_FULL":
		return http.StatusServiceUnavailable
	case "OUTCOME_UNKNOWN":
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
