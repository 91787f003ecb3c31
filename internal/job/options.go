package job

import (
	"encoding/json"
	"fmt"
)

// Options is what a submit may ask for, or carry, beyond its payload. It stays with the job for its whole life, over
// requeues too.
type Options struct {
	CallbackURL string `json:"callbackUrl,omitempty"` // hears of COMPLETED and FAILED; "" = nobody
	SpanID      string `json:"spanId,omitempty"`      // the span that submitted the job: 16 hexadecimal digits; "" = none
	// From names the stranger to whose quota a job without an owner counts: "~" and 16 hexadecimal digits of a hash of
	// the stranger's network; "" = no quota. Scripts read it.
	From      string `json:"from,omitempty"`
	Everybody bool   `json:"everybody,omitempty"` // its submitter sees everybody's jobs: a REPORT may count them all
}

// Text is the options in one line of JSON without spaces; "" if there are none. CallbackURL must be a URL: it has no
// spaces.
func (o Options) Text() string {
	if o == (Options{}) {
		return ""
	}
	text, _ := json.Marshal(o) // strings only: it cannot fail
	return string(text)
}

// ReadOptions reads what Text wrote.
func ReadOptions(text string) (o Options, err error) {
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	return o, nil
}

// Idempotency makes a submit one of a kind for TIERQ_IDEMPOTENCY_TTL: the same Key (of one caller) with the same Body
// answers the first one's job, with another Body it is refused. Both are 32 hexadecimal digits of a hash; no Key means
// that every submit is a new job.
type Idempotency struct{ Key, Body string }

// Accepted is the answer to a submit.
type Accepted struct {
	ID       ID
	Replayed bool // the Idempotency-Key was known: this is the job of the first submit
}
