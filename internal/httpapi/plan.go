package httpapi

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// planBody is a plan on the wire.
type planBody struct {
	Tier                job.Tier               `json:"tier"`
	Priority            int                    `json:"priority"`
	MaxRetries          int                    `json:"maxRetries"`
	HeartbeatTimeoutMs  int64                  `json:"heartbeatTimeoutMs"`
	MaxProcessingTimeMs int64                  `json:"maxProcessingTimeMs"`
	Share               int                    `json:"share"`
	MaxCrashes          *int                   `json:"maxCrashes"`
	OwnSlots            int                    `json:"ownSlots"`
	Lines               job.Lines              `json:"lines"`
	MaxWaitMs           int64                  `json:"maxWaitMs"`
	Backoff             backoffBody            `json:"backoff"`
	TypeBackoff         map[string]backoffBody `json:"typeBackoff"`
	Version             int64                  `json:"version"`
}

type backoffBody struct {
	BaseMs int64   `json:"baseMs"`
	Factor float64 `json:"factor"`
	CapMs  int64   `json:"capMs"`
	Jitter float64 `json:"jitter"`
}

func planOf(p job.Plan) planBody {
	b := planBody{
		Tier: p.Tier, Priority: p.Priority, MaxRetries: p.MaxRetries, MaxCrashes: p.MaxCrashes,
		OwnSlots:            p.OwnSlots,
		Lines:               cmp.Or(p.Lines, job.LinesOff),
		MaxWaitMs:           p.MaxWait.Milliseconds(),
		HeartbeatTimeoutMs:  p.HeartbeatTimeout.Milliseconds(),
		MaxProcessingTimeMs: p.MaxProcessingTime.Milliseconds(), Share: p.Share, Backoff: backoffOf(p.Backoff),
		TypeBackoff: make(map[string]backoffBody, len(p.TypeBackoff)), Version: p.Version,
	}
	for typ, backoff := range p.TypeBackoff {
		b.TypeBackoff[typ] = backoffOf(backoff)
	}
	return b
}

func backoffOf(b job.Backoff) backoffBody {
	return backoffBody{b.Base.Milliseconds(), b.Factor, b.Cap.Milliseconds(), b.Jitter}
}

// planAsked is a plan from a body, with the names of the required fields that were there.
type planAsked struct {
	job.Plan
	seen []string
}

type backoffAsked struct {
	job.Backoff
	seen []string
}

// The required fields. job.Plan's Check decides whether their values make a plan that can be served.
var (
	planFields    = []string{"priority", "maxRetries", "heartbeatTimeoutMs", "maxProcessingTimeMs", "share", "backoff"}
	backoffFields = []string{"baseMs", "factor", "capMs", "jitter"}
)

var planShape = shape[planAsked]{members: map[string]member[planAsked]{
	"priority":   planNumber("priority", func(p *planAsked, n int) { p.Priority = n }),
	"maxRetries": planNumber("maxRetries", func(p *planAsked, n int) { p.MaxRetries = n }),
	"maxCrashes": planNumber("maxCrashes", func(p *planAsked, n int) { p.MaxCrashes = &n }),
	"ownSlots":   planNumber("ownSlots", func(p *planAsked, n int) { p.OwnSlots = n }),
	"maxWaitMs":  planNumber("maxWaitMs", func(p *planAsked, n int) { p.MaxWait = milliseconds(n) }),
	"heartbeatTimeoutMs": planNumber("heartbeatTimeoutMs",
		func(p *planAsked, n int) { p.HeartbeatTimeout = milliseconds(n) }),
	"maxProcessingTimeMs": planNumber("maxProcessingTimeMs",
		func(p *planAsked, n int) { p.MaxProcessingTime = milliseconds(n) }),
	"lines": func(p *planAsked, v jsontext.Value) error {
		if v.Kind() != '"' {
			return reason("must be off, key or owner")
		}
		p.Lines = job.Lines(text(v))
		return nil
	},
	"share": planNumber("share", func(p *planAsked, n int) { p.Share = n }),
	"backoff": func(p *planAsked, v jsontext.Value) (err error) {
		p.seen = append(p.seen, "backoff")
		p.Backoff, err = decodeBackoff(v)
		return err
	},
	"typeBackoff": func(p *planAsked, v jsontext.Value) error {
		p.TypeBackoff = map[string]job.Backoff{}
		return typeBackoffShape.readObject(v, p)
	},
}}

// typeBackoffShape accepts a field of any name, one for each job type. job.Plan's Check decides which names are
// types.
var typeBackoffShape = shape[planAsked]{others: func(p *planAsked, name string, v jsontext.Value) error {
	b, err := decodeBackoff(v)
	p.TypeBackoff[name] = b
	return err
}}

var backoffShape = shape[backoffAsked]{members: map[string]member[backoffAsked]{
	"baseMs": backoffNumber("baseMs", func(b *backoffAsked, v float64) { b.Base = milliseconds(int(v)) }),
	"factor": backoffNumber("factor", func(b *backoffAsked, v float64) { b.Factor = v }),
	"capMs":  backoffNumber("capMs", func(b *backoffAsked, v float64) { b.Cap = milliseconds(int(v)) }),
	"jitter": backoffNumber("jitter", func(b *backoffAsked, v float64) { b.Jitter = v }),
}}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func planNumber(name string, set func(*planAsked, int)) member[planAsked] {
	return func(p *planAsked, v jsontext.Value) error {
		p.seen = append(p.seen, name)
		n, err := wholeNumber(v, 0, math.MaxInt32)
		set(p, n)
		return err
	}
}

func backoffNumber(name string, set func(*backoffAsked, float64)) member[backoffAsked] {
	return func(b *backoffAsked, v jsontext.Value) error {
		b.seen = append(b.seen, name)
		n, err := strconv.ParseFloat(string(v), 64)
		if v.Kind() != '0' || err != nil || n < 0 || n > math.MaxInt32 {
			return reason("must be a number, 0 or more")
		}
		set(b, n)
		return nil
	}
}

// decodePlan reads the body of a PUT: every field but maxCrashes, ownSlots, lines, maxWaitMs and typeBackoff must be
// there. Its errors are *problem.
func decodePlan(body []byte) (job.Plan, error) {
	var p planAsked
	if err := planShape.read(body, &p); err != nil {
		return job.Plan{}, err
	}
	return p.Plan, missing(planFields, p.seen)
}

func decodeBackoff(v jsontext.Value) (job.Backoff, error) {
	if v.Kind() != '{' {
		return job.Backoff{}, reason("must be an object")
	}
	var b backoffAsked
	if err := backoffShape.readObject(v, &b); err != nil {
		return job.Backoff{}, err
	}
	return b.Backoff, missing(backoffFields, b.seen)
}

// missing returns an error that names the wanted fields that were not seen.
func missing(wanted, seen []string) error {
	var wrong []fieldError
	for _, name := range wanted {
		if !slices.Contains(seen, name) {
			wrong = append(wrong, fieldError{name, "is missing"})
		}
	}
	return refuseFields(wrong)
}
