package httpapi

import (
	"fmt"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// asked holds the values of a body that asks for a job.
type asked struct {
	tier       string
	typ        string
	payload    []byte        // as it was sent, byte for byte; nil = none
	maxRetries int           // -1 = the plan's
	delay      time.Duration // whole milliseconds; -1 = not said
	runAt      time.Time
	callback   string
	key        string        // the Idempotency-Key; "" = none
	queue      string        // "" = main
	maxRun     time.Duration // 0 = not said
	unique     uniqueAsked
	lineKey    string        // "" = none
	expiresIn  time.Duration // whole milliseconds; 0 = not said
	expiresAt  time.Time
	batch      job.ID // "" = none
	trace      string // the trace id of an entry of a batch; "" = the request's
	*spelling
}

// spelling is one endpoint's choice of field names. clamps says that the endpoint lowers retries above the tier's
// bound and reports it in the answer; the other endpoints refuse such a number.
type spelling struct {
	typ, maxRetries string
	clamps          bool
}

var (
	ours    = &spelling{typ: "type", maxRetries: "maxRetries"}
	weavers = &spelling{typ: "jobType", maxRetries: "maxRetryCount", clamps: true} // JobWeaver's: its jobs have no tiers
)

// maxAhead is how far in the future a job may be due.
const maxAhead = 365 * 24 * time.Hour

// The bodies that ask for a job: a submit to a tier, an entry of a batch, POST /jobs and POST /api/jobs.
var (
	tierBody  = newSubmitBody(ours, nil)
	batchBody = newSubmitBody(ours, map[string]member[asked]{"idempotencyKey": (*asked).setKey,
		"traceId": (*asked).setTrace})
	jobsBody = newSubmitBody(ours, map[string]member[asked]{"tier": (*asked).setTier})
	apiBody  = newSubmitBody(weavers, map[string]member[asked]{"tier": (*asked).setTier})
)

type submitBody struct {
	shape[asked]
	names *spelling
}

func newSubmitBody(names *spelling, more map[string]member[asked]) *submitBody {
	members := map[string]member[asked]{
		names.typ: (*asked).setType, "payload": (*asked).setPayload, names.maxRetries: (*asked).setMaxRetries,
		"delaySeconds": (*asked).setDelay, "runAt": (*asked).setRunAt, "callbackUrl": (*asked).setCallback,
		"queue": (*asked).setQueue, "maxProcessingSeconds": (*asked).setMaxRun, "unique": (*asked).setUnique,
		"key": (*asked).setLineKey, "batch": (*asked).setBatch,
		"expiresIn": (*asked).setExpiresIn, "expiresAt": (*asked).setExpiresAt,
	}
	maps.Copy(members, more)
	return &submitBody{shape[asked]{members: members}, names}
}

// decode reads a body that asks for a job into a. An empty body leaves every value at its default. Errors are
// *problem.
func (b *submitBody) decode(body []byte, a *asked) error {
	*a = asked{maxRetries: -1, delay: -1, spelling: b.names}
	if len(body) == 0 {
		return nil
	}
	if err := b.read(body, a); err != nil {
		return err
	}
	if a.delay >= 0 && !a.runAt.IsZero() {
		return exclude("delaySeconds", "runAt")
	}
	if a.expiresIn > 0 && !a.expiresAt.IsZero() {
		return exclude("expiresIn", "expiresAt")
	}
	return nil
}

// exclude returns the problem of a body that has two members of which it may have one.
func exclude(one, other string) *problem {
	return &problem{
		kind: invalidRequest, detail: one + " and " + other + " exclude each other",
		fields: []fieldError{{one, "excludes " + other}, {other, "excludes " + one}},
	}
}

func (a *asked) setType(v jsontext.Value) error {
	if v.Kind() != '"' {
		return reason("must be a string")
	}
	name := v[1 : len(v)-1] // not unescaped: a name with an escape is refused for its backslash
	if !job.IsTypeName(string(name)) {
		return reason("a job type " + job.TypeNameRule)
	}
	a.typ = string(name)
	return nil
}

func (a *asked) setPayload(v jsontext.Value) error {
	a.payload = v
	return nil
}

func (a *asked) setMaxRetries(v jsontext.Value) error {
	n, err := strconv.Atoi(string(v))
	if v.Kind() != '0' || err != nil || n < 0 {
		return reason("must be a whole number, 0 or more")
	}
	a.maxRetries = n
	return nil
}

func (a *asked) setMaxRun(v jsontext.Value) (err error) {
	a.maxRun, err = wholeSeconds(v, 1, 86400)
	return err
}

// setLineKey reads the key of the job's line.
func (a *asked) setLineKey(v jsontext.Value) error {
	a.lineKey = text(v)
	if v.Kind() != '"' || len(a.lineKey) < 1 || len(a.lineKey) > job.MaxLineKey || !utf8.ValidString(a.lineKey) {
		return reason("must be a text of 1 to " + strconv.Itoa(job.MaxLineKey) + " bytes")
	}
	return nil
}

func (a *asked) setDelay(v jsontext.Value) error {
	d, err := secondsFrom(v, 0)
	if err == nil {
		a.delay = d
	}
	return err
}

func (a *asked) setRunAt(v jsontext.Value) error {
	at, err := moment(string(unquoted(v)))
	if err != nil {
		return err
	}
	a.runAt = at
	return nil
}

// moment parses a time as users send it, RFC 3339 with an offset, and returns it in UTC. Its error is a reason.
func moment(text string) (time.Time, error) {
	var at time.Time
	if err := at.UnmarshalText([]byte(text)); err != nil || at.IsZero() {
		return at, reason("must be a time such as 2026-12-01T08:00:00Z")
	}
	return at.UTC(), nil
}

func (a *asked) setCallback(v jsontext.Value) error {
	const most = 2048
	text := unquoted(v)
	switch {
	case v.Kind() != '"' || !visible(string(text)) || len(text) == 0:
		return reason("must be a URL")
	case len(text) > most:
		return reason(fmt.Sprintf("has %d bytes; at most %d are taken", len(text), most))
	}
	a.callback = string(text)
	return nil
}

func (a *asked) setKey(v jsontext.Value) error {
	if v.Kind() != '"' {
		return reason(keyRule)
	}
	a.key = string(unquoted(v))
	return checkKey(a.key)
}

func (a *asked) setTrace(v jsontext.Value) error {
	if a.trace = text(v); !plain(a.trace) {
		return reason("must be 1 to 64 letters, digits and . _ -")
	}
	return nil
}

// setTier stores the tier's name as it was sent. tierAsked decides whether there is such a tier.
func (a *asked) setTier(v jsontext.Value) error {
	if a.tier = text(v); a.tier == "" {
		return reason("must be a tier's name")
	}
	return nil
}

// setQueue stores a queue's name as it was sent. mayQueue decides whether there is such a queue.
func (a *asked) setQueue(v jsontext.Value) error {
	if a.queue = text(v); a.queue == "" {
		return reason("must be a queue's name")
	}
	return nil
}

// runsAt returns when the job is due: after a delay, or at a time by Redis' clock. Both are zero for a job that is
// due now, which includes a runAt that has passed.
func (a *asked) runsAt(now time.Time) (time.Duration, time.Time, error) {
	switch {
	case a.delay > 0:
		return a.delay, time.Time{}, nil
	case !a.runAt.After(now):
		return 0, time.Time{}, nil
	case a.runAt.After(now.Add(maxAhead)):
		return 0, time.Time{}, invalid("runAt", "is more than 365 days ahead")
	}
	return 0, a.runAt, nil
}

// tierNamed returns the tier that a text names, in capitals or, as in paths, in small letters; "" if the text
// cannot name a tier. It does not check that there is such a tier.
func tierNamed(text string) job.Tier {
	if name := pathTier(text); name != "" {
		return name
	}
	if len(text) < 1 || len(text) > maxTierName {
		return ""
	}
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return ""
		}
	}
	return job.Tier(text)
}

// visible reports whether a text is visible ASCII only, which cannot break a line, a header or a log.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
