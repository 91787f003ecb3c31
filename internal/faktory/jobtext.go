package faktory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/job"
)

// pushed is what the gateway reads of a job's JSON. The rest is the client's, and comes to the worker as it was sent.
type pushed struct {
	Jid        string                     `json:"jid"`
	Queue      string                     `json:"queue"`
	Type       string                     `json:"jobtype"`
	Args       json.RawMessage            `json:"args"`
	At         string                     `json:"at"`
	CreatedAt  string                     `json:"created_at"`
	Retry      *int                       `json:"retry"`
	ReserveFor *int                       `json:"reserve_for"`
	Custom     map[string]json.RawMessage `json:"custom"`

	// These are only held against their types: libraries read them with types, too.
	EnqueuedAt string    `json:"enqueued_at"`
	Backtrace  int       `json:"backtrace"`
	Failure    *struct{} `json:"failure"`
}

// The defaults and bounds of a job.
const (
	defaultQueue   = "default"
	defaultRetries = 25
	defaultReserve = 1800 // seconds
	leastReserve   = 60
	mostReserve    = 86400
	leastJid       = 8
	mostJid        = 200
	mostDepth      = 32 // of the JSON
	mostAhead      = 365 * 24 * time.Hour
)

// readJob reads the JSON of a job. The errors are those of the server of Faktory, word by word.
func readJob(text []byte) (p pushed, err error) {
	if !utf8.Valid(text) {
		return p, refusal("invalid JSON: it is not UTF-8")
	}
	if deep(text) {
		return p, refusal("invalid JSON: it is nested deeper than " + strconv.Itoa(mostDepth) + " levels")
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, refusal("invalid JSON: " + err.Error())
	}
	switch args := bytes.TrimSpace(p.Args); {
	case len(p.Jid) < leastJid:
		return p, refusal("jobs must have a reasonable jid parameter")
	case len(p.Jid) > mostJid:
		return p, refusal("jobs must have a reasonable jid parameter: at most " + strconv.Itoa(mostJid) + " bytes")
	case p.Type == "":
		return p, refusal("jobs must have a jobtype parameter")
	case len(args) == 0 || string(args) == "null":
		return p, refusal("jobs must have an args parameter")
	case args[0] != '[':
		return p, refusal("invalid JSON: args is not an array")
	case p.ReserveFor != nil && *p.ReserveFor > mostReserve:
		return p, refusal("jobs cannot be reserved for more than one day")
	case !job.IsForeignTypeName(p.Type):
		return p, refusal("invalid jobtype: a job type " + job.ForeignTypeNameRule)
	}
	if p.Queue == "" {
		p.Queue = defaultQueue
	}
	return p, nil
}

// deep says whether brackets are nested too deep. The text may still prove not to be JSON.
func deep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > mostDepth {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

// tier returns the tier that the job names in custom, "" for none.
func (p *pushed) tier() (tier string) {
	if json.Unmarshal(p.Custom["tier"], &tier) != nil {
		return ""
	}
	return tier
}

// runAt returns when the job is due; the zero time = now.
func (p *pushed) runAt(now time.Time) (time.Time, error) {
	if p.At == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, p.At)
	switch {
	case err != nil:
		return at, refusal(fmt.Sprintf("invalid timestamp for 'at': %q: %s", p.At, err.Error()))
	case !at.After(now):
		return time.Time{}, nil
	case at.After(now.Add(mostAhead)):
		return at, refusal("invalid timestamp for 'at': it is more than 365 days ahead")
	}
	return at, nil
}

// retries returns how often the job may be tried again. A job with a retry of 0 or below is not.
func (p *pushed) retries(plan job.Plan) int {
	wanted := defaultRetries
	if p.Retry != nil {
		wanted = *p.Retry
	}
	return max(min(wanted, plan.MaxRetries), 0)
}

// reserve returns how long an attempt of the job may run.
func (p *pushed) reserve() time.Duration {
	seconds := defaultReserve
	if p.ReserveFor != nil && *p.ReserveFor != 0 {
		seconds = max(*p.ReserveFor, leastReserve)
	}
	return time.Duration(seconds) * time.Second
}

// failure is what a worker is told of the attempts before its own.
type failure struct {
	RetryCount int      `json:"retry_count"`
	Remaining  int      `json:"remaining"`
	FailedAt   string   `json:"failed_at"`
	Message    string   `json:"message,omitempty"`
	ErrorType  string   `json:"errtype,omitempty"`
	Backtrace  []string `json:"backtrace,omitempty"`
}

// errorText is how the report of a FAIL is kept, and readError reads it again.
func errorText(typ, message string, backtrace []string) string {
	return strings.Join(append([]string{typ + ": " + strings.ReplaceAll(message, "\n", " ")}, backtrace...), "\n")
}

func readError(text string) (typ, message string, backtrace []string) {
	lines := strings.Split(text, "\n")
	typ, message, found := strings.Cut(lines[0], ": ")
	if !found {
		typ, message = "", lines[0]
	}
	return typ, message, lines[1:]
}

// errNoJob is a payload that did not come from a Faktory client.
var errNoJob = errors.New("the payload is not a job of a Faktory client")

// jidOf returns what clients call the job of a lease, and the JSON of the job as it was pushed. A job that came another
// way gets its own id, and its payload as the only argument.
func jidOf(l *job.Lease) (jid string, text []byte, p pushed) {
	text = bytes.TrimSpace(l.Payload)
	p, err := readJob(text)
	if err == nil && (len(text) < 2 || text[0] != '{') {
		err = errNoJob
	}
	if err == nil {
		return p.Jid, text, p
	}
	args := text
	if len(args) == 0 {
		args = []byte("null")
	}
	text = fmt.Appendf(nil, `{"jid":%q,"queue":%q,"jobtype":%q,"args":[%s]}`, l.ID, l.QueueName(), l.Type, args)
	return string(l.ID), text, pushed{Jid: string(l.ID), Queue: l.QueueName(), Type: l.Type, Retry: &l.MaxRetries}
}

// complete adds to the JSON of a job what the server tells of it. The members stand at the end, where they go before
// members of the same name. All that was pushed stays byte for byte.
func complete(text []byte, p *pushed, l *job.Lease, failed *failure) []byte {
	out := make([]byte, 0, len(text)+160)
	out = append(out, text[:len(text)-1]...)
	add := func(name string, value any) {
		encoded, _ := json.Marshal(value) // cannot fail for these types
		out = append(append(append(append(out, `,"`...), name...), `":`...), encoded...)
	}
	if p.CreatedAt == "" {
		add("created_at", stamp(l.ArrivedAt))
	}
	since := l.ArrivedAt
	if l.RunAt.After(since) {
		since = l.RunAt
	}
	add("enqueued_at", stamp(since))
	if failed != nil {
		add("failure", failed)
	}
	return append(out, '}')
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
