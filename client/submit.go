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

// Submission is a job to submit. Every field is optional.
type Submission struct {
	Type    string // the server's default is SIMULATION
	Payload any    // any value that encoding/json takes; a json.RawMessage is sent unchanged; nil = none

	// IdempotencyKey makes the submit idempotent for an hour, unless the server is set otherwise: the same key with
	// the same submission gives the first job, and with another submission ErrMismatch. It is visible ASCII, at most
	// 255 characters. "" = a random key, which protects against lost answers, but not against a second submit.
	IdempotencyKey string

	MaxRetries *int          // may lower the tier's limit, not raise it; nil = the tier's
	Delay      time.Duration // before the job may start, to the millisecond; excludes RunAt
	RunAt      time.Time     // when the job may start; excludes Delay
	// ExpiresIn is how long after the submit a worker must have claimed the job for the first time, or the job ends
	// EXPIRED without a run, to the millisecond; 0 = whenever. It is longer than Delay. ExpiresAt is the same as a time.
	ExpiresIn   time.Duration
	ExpiresAt   time.Time // excludes ExpiresIn
	CallbackURL string    // gets a signed POST when the job has ended
	Queue       string    // a declared queue, or MainQueue; "" = MainQueue
	Unique      *Unique   // nil = none
	LineKey     string    // see WithKey
	BatchID     string    // the open batch that the job becomes a member of; excludes Unique; "" = none
	// TraceID appears in the server's logs and in the job's calls: letters, digits, . _ -; "" = the server makes one.
	TraceID string
}

// Unique gives a job a unique key: of the caller's jobs with one key only one lives at a time.
type Unique struct {
	Key   string // 1 to 128 bytes
	While string // how long the job holds the key: WhileWaiting or WhileLiving; "" = WhileLiving
	// For says how long the job holds the key from its arrival, whether it lives or not, in whole seconds; 0 = as While
	// says.
	For     time.Duration
	On      string        // what to do if another job holds the key: OnReturn, OnRefuse, ...; "" = OnReturn
	MaxWait time.Duration // with OnReplace: how long after its arrival a replaced job is due at the latest; 0 = whenever
}

// What Unique.While may be: until a worker claims the job, and until it has ended.
const (
	WhileWaiting = "waiting"
	WhileLiving  = "living"
)

// What Unique.On may be. OnReturn answers with the job that holds the key, OnRefuse is ErrTaken. OnReplace gives that
// job the new payload if no worker has claimed it, else it is as OnAfter: the new job is HELD until the holder has
// ended.
const (
	OnReturn  = "return"
	OnRefuse  = "refuse"
	OnReplace = "replace"
	OnAfter   = "after"
)

// WithKey gives the job a key, of 1 to 128 bytes: in a tier whose plan has lines it waits in the line of the key. The
// lines share the worker time, and a key may have limits: see LineLimits.
func WithKey(key string) SubmitOption { return func(s *Submission) { s.LineKey = key } }

// WithUnique gives the job a unique key: see Unique.
func WithUnique(u Unique) SubmitOption { return func(s *Submission) { s.Unique = &u } }

// SubmitOption sets a field of the Submission that Submit makes.
type SubmitOption func(*Submission)

// IdempotencyKey makes the submit idempotent for a while: see Submission.
func IdempotencyKey(key string) SubmitOption { return func(s *Submission) { s.IdempotencyKey = key } }

// MaxRetries lowers the number of retries below the tier's.
func MaxRetries(n int) SubmitOption { return func(s *Submission) { s.MaxRetries = &n } }

// Delay sets that the job starts after d at the earliest.
func Delay(d time.Duration) SubmitOption { return func(s *Submission) { s.Delay = d } }

// RunAt sets that the job starts at t at the earliest.
func RunAt(t time.Time) SubmitOption { return func(s *Submission) { s.RunAt = t } }

// ExpiresIn ends the job as EXPIRED if no worker has claimed it within d.
func ExpiresIn(d time.Duration) SubmitOption { return func(s *Submission) { s.ExpiresIn = d } }

// ExpiresAt ends the job as EXPIRED if no worker has claimed it by t.
func ExpiresAt(t time.Time) SubmitOption { return func(s *Submission) { s.ExpiresAt = t } }

// CallbackURL sets an address that gets a signed POST when the job has ended.
func CallbackURL(url string) SubmitOption { return func(s *Submission) { s.CallbackURL = url } }

// InQueue sets the queue in which the job waits.
func InQueue(name string) SubmitOption { return func(s *Submission) { s.Queue = name } }

// TraceID sets the job's trace id.
func TraceID(id string) SubmitOption { return func(s *Submission) { s.TraceID = id } }

// Submitted is an accepted job.
type Submitted struct {
	JobID    string `json:"jobId"`
	Status   Status `json:"currentJobStatus"`
	Replayed bool   `json:"idempotencyReplayed,omitempty"` // the IdempotencyKey was known: this is its first job
	// Deduplicated says that the submit made no job: JobID names the job that holds the unique key, or the job that waits
	// (HELD) for that one to end. Replaced says that the named job has this submit's payload now.
	Deduplicated bool          `json:"deduplicated,omitempty"`
	Replaced     bool          `json:"replaced,omitempty"`
	TraceID      string        `json:"traceId,omitempty"`
	RetryAfter   time.Duration `json:"-"` // the job may have ended after this; 0 = the server did not say
}

// Submit submits a job and returns its id. payload is any value that encoding/json takes, such as a map. Its
// errors are those of SubmitJob.
func (c *Client) Submit(ctx context.Context, tier Tier, typ string, payload any, opts ...SubmitOption) (jobID string,
	err error) {
	s := Submission{Type: typ, Payload: payload}
	for _, o := range opts {
		o(&s)
	}
	accepted, err := c.SubmitJob(ctx, tier, s)
	return accepted.JobID, err
}

// SubmitJob submits a job. Without an error the server has the job. ErrOutcomeUnknown means that it may have the
// job: Error.JobID, if set, can be polled, and the same submission with Error.Key as its IdempotencyKey gets the
// answer without making a second job. Any other error means that the job does not exist and never will:
// ErrQueueFull and ErrUnavailable (submit again after Error.RetryAfter), ErrNotFound (the tier does not exist),
// ErrInvalid with Error.Fields, ErrMismatch, ErrTaken (Error.JobID holds the unique key), ErrUnauthorized.
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
	if c.gather != nil {
		return c.gather.submit(ctx, k, s.TraceID)
	}
	a, err := c.do(ctx, k)
	if err != nil {
		return Submitted{}, err
	}
	return k.accepted(a)
}

// accepted reads the answer to a submit.
func (k *call) accepted(a answer) (Submitted, error) {
	var got struct {
		Data Submitted `json:"apiResponseData"`
	}
	if err := understand(a, k, &got); err != nil {
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

// key returns the submission's own key, or a random one of at least 128 bits.
func (s *Submission) key() string {
	if s.IdempotencyKey == "" {
		return rand.Text()
	}
	return s.IdempotencyKey
}

// wireSubmission is the body of a submit. It contains the key only in a batch.
type wireSubmission struct {
	Type         string  `json:"type,omitempty"`
	Payload      any     `json:"payload,omitempty"`
	MaxRetries   *int    `json:"maxRetries,omitempty"`
	DelaySeconds float64 `json:"delaySeconds,omitempty"`
	RunAt        string  `json:"runAt,omitempty"`
	ExpiresIn    float64 `json:"expiresIn,omitempty"`
	ExpiresAt    string  `json:"expiresAt,omitempty"`
	CallbackURL  string  `json:"callbackUrl,omitempty"`
	Queue        string  `json:"queue,omitempty"`
	Unique       *unique `json:"unique,omitempty"`
	LineKey      string  `json:"key,omitempty"`
	BatchID      string  `json:"batch,omitempty"`
	Key          string  `json:"idempotencyKey,omitempty"`
}

// unique is a Unique on the wire.
type unique struct {
	Key     string `json:"key"`
	While   any    `json:"while,omitempty"`
	On      string `json:"on,omitempty"`
	MaxWait int64  `json:"maxWait,omitempty"`
}

func (u *Unique) wire() *unique {
	if u == nil {
		return nil
	}
	w := &unique{Key: u.Key, On: u.On, MaxWait: wholeSeconds(u.MaxWait)}
	switch {
	case u.For > 0:
		w.While = wholeSeconds(u.For)
	case u.While != "":
		w.While = u.While
	}
	return w
}

// milliseconds returns a time in seconds, rounded up to the millisecond.
func milliseconds(d time.Duration) float64 {
	return math.Ceil(float64(d)/float64(time.Millisecond)) / 1000
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// encode encodes the submission as JSON. The same submission gives the same text, because the server compares the
// texts of submits with the same idempotency key.
func (s *Submission) encode(key string) ([]byte, error) {
	switch {
	case s.Delay < 0:
		return nil, errors.New("the delay is negative")
	case s.Delay > 0 && !s.RunAt.IsZero():
		return nil, errors.New("a delay and a time to run at exclude each other")
	case s.ExpiresIn < 0:
		return nil, errors.New("the time in which the job expires is negative")
	case s.ExpiresIn > 0 && !s.ExpiresAt.IsZero():
		return nil, errors.New("ExpiresIn and ExpiresAt exclude each other")
	case len(s.IdempotencyKey) > 255 || !visible(s.IdempotencyKey):
		return nil, errors.New("an idempotency key is visible ASCII, at most 255 characters")
	case len(s.TraceID) > 64 || strings.ContainsFunc(s.TraceID,
		func(r rune) bool { return !letter(r) && r != '.' && r != '-' }):
		// The server would ignore any other trace id.
		return nil, errors.New("a trace id is letters, digits and . _ -, at most 64")
	}
	w := wireSubmission{
		Type: s.Type, Payload: s.Payload, MaxRetries: s.MaxRetries, CallbackURL: s.CallbackURL, Queue: s.Queue, Key: key,
		Unique:       s.Unique.wire(),
		LineKey:      s.LineKey,
		BatchID:      s.BatchID,
		DelaySeconds: milliseconds(s.Delay), ExpiresIn: milliseconds(s.ExpiresIn), // never early
	}
	if !s.ExpiresAt.IsZero() {
		w.ExpiresAt = s.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if !s.RunAt.IsZero() {
		w.RunAt = s.RunAt.UTC().Format(time.RFC3339Nano)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // leaves the payload's text unchanged
	if err := e.Encode(w); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// members returns the members of the submission's body, and its tier, if it names one.
func (s *Submission) members(tier Tier) (map[string]any, error) {
	text, err := s.encode("")
	if err != nil {
		return nil, err
	}
	said := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	all := make(map[string]any, len(said)+3)
	for name, value := range said {
		all[name] = value
	}
	if tier != "" {
		all["tier"] = tier
	}
	return all, nil
}

// tierPath returns the path of a tier: its name in lower case.
func tierPath(tier Tier) (string, error) {
	if tier == "" || strings.ContainsFunc(string(tier), func(r rune) bool { return !letter(r) }) {
		return "", fmt.Errorf("%q is not the name of a tier", string(tier))
	}
	return strings.ToLower(string(tier)), nil
}

// letter reports whether r is allowed in a tier's name.
func letter(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_'
}
