package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// Submission is a job to be done. Every field is optional.
type Submission struct {
	Type    string // the server's default is SIMULATION
	Payload any    // anything encoding/json takes; a json.RawMessage is sent as it is; nil = none

	// IdempotencyKey makes the job one of a kind for an hour, unless the server says otherwise: the same key and job
	// again is the first one's job, another job under it is ErrMismatch. Visible ASCII, at most 255. "" = a random one:
	// safe against lost answers, not against submitting anew.
	IdempotencyKey string

	MaxRetries  *int          // may lower the tier's, not raise it; nil = the tier's
	Delay       time.Duration // before the job may start, to the millisecond; excludes RunAt
	RunAt       time.Time     // when the job may start; excludes Delay
	CallbackURL string        // is told of the job's end by a signed POST
	// letters, digits, . _ -: goes into the server's logs and the job's calls; "" = the server makes one
	TraceID string
}

// SubmitOption sets what Submit's arguments do not.
type SubmitOption func(*Submission)

// IdempotencyKey makes the job one of a kind for a while: see Submission.
func IdempotencyKey(key string) SubmitOption { return func(s *Submission) { s.IdempotencyKey = key } }

// MaxRetries lowers the number of retries below the tier's.
func MaxRetries(n int) SubmitOption { return func(s *Submission) { s.MaxRetries = &n } }

// Delay lets the job start after d at the earliest.
func Delay(d time.Duration) SubmitOption { return func(s *Submission) { s.Delay = d } }

// RunAt lets the job start at t at the earliest.
func RunAt(t time.Time) SubmitOption { return func(s *Submission) { s.RunAt = t } }

// CallbackURL has the job's end told to an address by a signed POST.
func CallbackURL(url string) SubmitOption { return func(s *Submission) { s.CallbackURL = url } }

// TraceID gives the job a trace id of the caller's.
func TraceID(id string) SubmitOption { return func(s *Submission) { s.TraceID = id } }

// Submitted is an accepted job.
type Submitted struct {
	JobID      string        `json:"jobId"`
	Status     Status        `json:"currentJobStatus"`
	Replayed   bool          `json:"idempotencyReplayed,omitempty"` // the IdempotencyKey was known: this is its first job
	TraceID    string        `json:"traceId,omitempty"`
	RetryAfter time.Duration `json:"-"` // when the job may be done; 0 = the server did not say
}

// Submit asks for a job and returns its id. payload is anything encoding/json takes, such as a map. Its errors are
// those of SubmitJob.
func (c *Client) Submit(ctx context.Context, tier Tier, typ string, payload any, opts ...SubmitOption) (jobID string,
	err error) {
	s := Submission{Type: typ, Payload: payload}
	for _, o := range opts {
		o(&s)
	}
	accepted, err := c.SubmitJob(ctx, tier, s)
	return accepted.JobID, err
}

// SubmitJob asks for a job. No error means that the server has it. ErrOutcomeUnknown means that it may have it:
// Error.JobID, if set, can be polled, and the same submission with Error.Key as its IdempotencyKey finds out without
// making a second job. Any other error means that there is no such job, and never will be: ErrQueueFull and
// ErrUnavailable (come again after Error.RetryAfter), ErrNotFound (no such tier), ErrInvalid with Error.Fields,
// ErrMismatch, ErrUnauthorized.
func (c *Client) SubmitJob(ctx context.Context, tier Tier, s Submission) (Submitted, error) {
	path, err := tierPath(tier)
	if err != nil {
		return Submitted{}, fmt.Errorf("submit: %w", err)
	}
	body, err := s.encode("")
	if err != nil {
		return Submitted{}, fmt.Errorf("submit: %w", err)
	}
	k := call{verb: "submit", method: http.MethodPost, path: path + "/submit", header: s.headers(), body: body,
		key: s.key(), changes: true}
	got, a, err := fetch[struct {
		Data Submitted `json:"apiResponseData"`
	}](ctx, c, k)
	if err != nil {
		return Submitted{}, err
	}
	accepted := got.Data
	if accepted.JobID == "" {
		return Submitted{}, fmt.Errorf("submit: %w", &Error{Status: a.status, Key: k.key, Unknown: true, Err: errNoJob})
	}
	accepted.Replayed = accepted.Replayed || a.header.Get("Idempotency-Replayed") == "true"
	accepted.RetryAfter = retryAfter(a.header)
	accepted.TraceID = a.header.Get("X-Trace-Id")
	return accepted, nil
}

func (s *Submission) headers() http.Header {
	h := http.Header{}
	if s.TraceID != "" {
		h.Set("X-Trace-Id", s.TraceID)
	}
	return h
}

// key is the submission's own, or a random one of at least 128 bits.
func (s *Submission) key() string {
	if s.IdempotencyKey == "" {
		return rand.Text()
	}
	return s.IdempotencyKey
}

// wireSubmission is the body of a submit; the key stands in it in a batch only.
type wireSubmission struct {
	Type         string  `json:"type,omitempty"`
	Payload      any     `json:"payload,omitempty"`
	MaxRetries   *int    `json:"maxRetries,omitempty"`
	DelaySeconds float64 `json:"delaySeconds,omitempty"`
	RunAt        string  `json:"runAt,omitempty"`
	CallbackURL  string  `json:"callbackUrl,omitempty"`
	Key          string  `json:"idempotencyKey,omitempty"`
}

// encode writes the submission as JSON, the same text for the same submission: a server compares it under an
// idempotency key.
func (s *Submission) encode(key string) ([]byte, error) {
	switch {
	case s.Delay < 0:
		return nil, errors.New("the delay is negative")
	case s.Delay > 0 && !s.RunAt.IsZero():
		return nil, errors.New("a delay and a time to run at exclude each other")
	case len(s.IdempotencyKey) > 255 || !visible(s.IdempotencyKey):
		return nil, errors.New("an idempotency key is visible ASCII, at most 255 characters")
	case len(s.TraceID) > 64 || strings.ContainsFunc(s.TraceID,
		func(r rune) bool { return !letter(r) && r != '.' && r != '-' }):
		// the server would pass over another one
		return nil, errors.New("a trace id is letters, digits and . _ -, at most 64")
	}
	w := wireSubmission{
		Type: s.Type, Payload: s.Payload, MaxRetries: s.MaxRetries, CallbackURL: s.CallbackURL, Key: key,
		DelaySeconds: math.Ceil(float64(s.Delay)/float64(time.Millisecond)) / 1000, // to the millisecond, never early
	}
	if !s.RunAt.IsZero() {
		w.RunAt = s.RunAt.UTC().Format(time.RFC3339Nano)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the payload's text is the caller's
	if err := e.Encode(w); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// tierPath is the path of a tier: its name in lower case.
func tierPath(tier Tier) (string, error) {
	if tier == "" || strings.ContainsFunc(string(tier), func(r rune) bool { return !letter(r) }) {
		return "", fmt.Errorf("%q is not the name of a tier", string(tier))
	}
	return strings.ToLower(string(tier)), nil
}

// letter reports whether r may stand in a name.
func letter(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_'
}
