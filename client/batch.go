package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The limits of one batch request; SubmitBatch divides longer lists.
const (
	maxBatch      = 1000
	maxBatchBytes = 16 << 20
)

// Outcome is the result of one submission of a batch: a job, or an error.
type Outcome struct {
	Submitted
	// Err is nil for an accepted job. Otherwise it is the error that SubmitJob would have returned, or ErrNotSent.
	Err error
}

// SubmitBatch submits many jobs with few requests: it divides a list above 1000 jobs or 16 MiB into several
// requests, one after the other, and a request that a server in between finds too large into smaller ones. The server
// accepts or refuses each job separately, and the outcomes are in the order of the submissions. Temporary refusals are
// tried again as in SubmitJob.
//
// The error is nil if every submission got an answer, which may be a refusal. Otherwise it is the error that ended
// the call, and the outcomes, always one per submission, show how far the call came. If one of the submissions
// cannot be encoded, SubmitBatch sends nothing and returns no outcomes.
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

// entry is one encoded submission of a batch.
type entry struct {
	at         int // its index in the caller's list
	key, trace string
	text       []byte
}

// cut returns how many entries go into one request. All of them must have the same trace id, because a request has
// only one.
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

// submitChunk sends one request, and sends the temporarily refused entries again. A request that is too large is
// divided; an entry that is too large alone is refused. Its error ends the whole batch.
func (c *Client) submitChunk(ctx context.Context, path string, chunk []entry, out []Outcome) error {
	for made := 1; ; made++ {
		err := c.sendChunk(ctx, path, chunk, out)
		if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusRequestEntityTooLarge {
			half := len(chunk) / 2
			if half == 0 {
				return nil
			}
			if err := c.submitChunk(ctx, path, chunk[:half], out); err != nil {
				return err
			}
			return c.submitChunk(ctx, path, chunk[half:], out)
		}
		if err != nil {
			return err
		}
		left, wait := c.worthAnother(chunk, made, out)
		if len(left) == 0 || !rest(ctx, wait+c.draw(c.policy.bound(made))) {
			return nil // every entry has an outcome
		}
		chunk = left
	}
}

// worthAnother returns the entries that were refused temporarily, and the longest Retry-After among them.
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
	Dedup    bool         `json:"deduplicated"`
	Replaced bool         `json:"replaced"`
	Code     string       `json:"errorCode"`
	Message  string       `json:"message"`
	Detail   string       `json:"detail"`
	Fields   []FieldError `json:"errors"`
	// RetryAfter is the Retry-After, in seconds, of the same submit alone. Older servers do not send it.
	RetryAfter *int64 `json:"retryAfter"`
}

// outcome converts an entry; unknown means that an earlier try may have submitted the job.
func (w *wireOutcome) outcome(key string, unknown bool, h http.Header) Outcome {
	accepted, e := w.submitted(h)
	if e == nil {
		return Outcome{Submitted: accepted}
	}
	e.Key, e.Unknown = key, unknown || mayHaveHappened(e)
	return Outcome{Err: fmt.Errorf("submit: %w", e)}
}

// submitted converts an entry into what SubmitJob would have read. h is the header of the whole batch.
func (w *wireOutcome) submitted(h http.Header) (Submitted, *Error) {
	trace, after := h.Get("X-Trace-Id"), retryAfter(h)
	if w.RetryAfter != nil {
		after = time.Duration(*w.RetryAfter) * time.Second
	}
	if w.Code == "" && w.JobID != "" {
		return Submitted{JobID: w.JobID, Status: w.Status, Replayed: w.Replayed, Deduplicated: w.Dedup,
			Replaced: w.Replaced, TraceID: trace, RetryAfter: after}, nil
	}
	e := &Error{
		Status: statusOf(w.Code), Code: w.Code, Message: w.Message, Detail: w.Detail, Fields: w.Fields, JobID: w.JobID,
		TraceID: trace,
	}
	if e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable {
		e.RetryAfter = after // no other refusal of a single submit names a wait
	}
	return Submitted{}, e
}

// keyed copies a batch's error for one submission, with the submission's own key.
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

// statusOf returns the HTTP status of an error code, because a refusal inside a batch's answer has no status of
// its own.
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
	case "INVALID_PAYLOAD", "UNKNOWN_JOB_TYPE", "UNKNOWN_QUEUE", "IDEMPOTENCY_MISMATCH":
		return http.StatusUnprocessableEntity
	case "UNIQUE_TAKEN":
		return http.StatusConflict
	case "RATE_LIMITED":
		return http.StatusTooManyRequests
	case "SYSTEM_UNHEALTHY", "QUEUE_FULL", "PAUSED":
		return http.StatusServiceUnavailable
	case "OUTCOME_UNKNOWN":
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
