package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Options are what a submit may ask for, or carry, beside its payload. They stay with the job for its whole life,
// also through requeues.
type Options struct {
	CallbackURL string `json:"callbackUrl,omitempty"` // gets a request after COMPLETED and FAILED; "" = none
	SpanID      string `json:"spanId,omitempty"`      // the span that submitted the job: 16 hexadecimal digits; "" = none
	// From names the caller whose quota a job without an owner counts for: "~" and 16 hexadecimal digits of a hash of
	// the caller's network; "" = no quota. Scripts read it.
	From      string `json:"from,omitempty"`
	Everybody bool   `json:"everybody,omitempty"` // the submitter sees all jobs: a REPORT may count them all
	Schedule  string `json:"schedule,omitempty"`  // the name of the schedule that made the job; "" = none did
	Batch     string `json:"batch,omitempty"`     // the id of the batch that the job is a member of; "" = none
	ThenOf    string `json:"thenOf,omitempty"`    // the id of the batch whose then job it is; "" = none
	// The class has these four in Redis.
	Queue    string `json:"queue,omitempty"`    // where the job waits; "" = main
	MaxRunMs int64  `json:"maxRunMs,omitempty"` // how long an attempt may run, in milliseconds; 0 = what the plan says
	Unique   string `json:"unique,omitempty"`   // the unique key and how long the job holds it, see Unique; "" = none
	Line     string `json:"line,omitempty"`     // names the key whose line the job waits in, see LineOf; "" = no line
	// ExpiresMs is the time by Redis' clock, in milliseconds, by which the job must be claimed for the first time; 0 = it
	// may wait for ever. It holds for the first generation only, see ExpiresAt.
	ExpiresMs int64 `json:"expiresMs,omitempty"`
	Flow      ID    `json:"flow,omitempty"` // the flow whose job it is; "" = none
}

// QueueName returns the name of the job's queue.
func (o Options) QueueName() string { return cmp.Or(o.Queue, MainQueue) }

// MaxRun returns how long an attempt of the job may run, in a plan.
func (o Options) MaxRun(p Plan) time.Duration {
	if o.MaxRunMs > 0 {
		return time.Duration(o.MaxRunMs) * time.Millisecond
	}
	return p.MaxProcessingTime
}

// Text returns the options as one line of JSON without spaces; "" if there are none. CallbackURL must be a URL, so
// that it contains no space.
func (o Options) Text() string {
	if o == (Options{}) {
		return ""
	}
	text, _ := json.Marshal(o) // Marshal cannot fail on these types
	return string(text)
}

// ReadOptions parses the result of Text.
func ReadOptions(text string) (o Options, err error) {
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	return o, nil
}

// Idempotency makes repeats of a submit one job for TIERQ_IDEMPOTENCY_TTL: the same Key (of one caller) with the
// same Body gets the first submit's job, and with another Body it is refused. Both are 32 hexadecimal digits of a
// hash; no Key means that every submit is a new job.
type Idempotency struct{ Key, Body string }

// Accepted is the answer to an accepted submit.
type Accepted struct {
	ID       ID
	Replayed bool // the Idempotency-Key was known: ID is the job of the first submit

	Deduplicated bool // another job holds the unique key, or is HELD behind the holder: ID is that job
	Replaced     bool // with Deduplicated: that job has the submit's payload now
	Held         bool // the job is HELD
}
