package pages

import (
	"cmp"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// planField is one setting of a plan in the form. Exactly one of whole, perhaps, span, part and lines is set.
type planField struct {
	name, title, unit, effect string

	value   func(*web.PlanValues) *string
	whole   func(*client.Plan) *int
	perhaps func(*client.Plan) **int          // a whole number, or empty
	span    func(*client.Plan) *time.Duration // in seconds in the form
	part    func(*client.Plan) *float64
	lines   func(*client.Plan) *string // one of off, key and owner
}

const nextWait = "waits that have begun do not change"

var planFields = []planField{
	{
		name: "priority", title: "Priority", effect: "jobs that wait keep the place they have",
		value: func(v *web.PlanValues) *string { return &v.Priority },
		whole: func(p *client.Plan) *int { return &p.Priority },
	},
	{
		name: "maxRetries", title: "Retries", effect: "jobs in the queue keep their number",
		value: func(v *web.PlanValues) *string { return &v.MaxRetries },
		whole: func(p *client.Plan) *int { return &p.MaxRetries },
	},
	{
		name: "maxCrashes", title: "Crashes", effect: "applies to crashes from now on; those before count",
		value:   func(v *web.PlanValues) *string { return &v.MaxCrashes },
		perhaps: func(p *client.Plan) **int { return &p.MaxCrashes },
	},
	{
		name: "ownSlots", title: "Own slots", effect: "applies to claims from now on; running jobs run on",
		value: func(v *web.PlanValues) *string { return &v.OwnSlots },
		whole: func(p *client.Plan) *int { return &p.OwnSlots },
	},
	{
		name: "lines", title: "Lines", effect: "applies to submits from now on; jobs that wait keep the place they have",
		value: func(v *web.PlanValues) *string { return &v.Lines },
		lines: func(p *client.Plan) *string { return &p.Lines },
	},
	{
		name: "heartbeatTimeout", title: "Heartbeat timeout", effect: "applies to a running job from its next heartbeat on",
		value: func(v *web.PlanValues) *string { return &v.HeartbeatTimeout },
		span:  func(p *client.Plan) *time.Duration { return &p.HeartbeatTimeout },
	},
	{
		name: "maxWait", title: "Maximum wait", effect: "applies to submits from now on; jobs that wait keep their time",
		value: func(v *web.PlanValues) *string { return &v.MaxWait },
		span:  func(p *client.Plan) *time.Duration { return &p.MaxWait },
	},
	{
		name: "maxProcessingTime", title: "Maximum time", effect: "applies to attempts that begin from now on",
		value: func(v *web.PlanValues) *string { return &v.MaxProcessingTime },
		span:  func(p *client.Plan) *time.Duration { return &p.MaxProcessingTime },
	},
	{
		name: "share", title: "Share of capacity", unit: " %", effect: "submits above it are refused; waiting jobs stay",
		value: func(v *web.PlanValues) *string { return &v.Share }, whole: func(p *client.Plan) *int { return &p.Share },
	},
	{
		name: "backoffBase", title: "Backoff, first wait", effect: nextWait,
		value: func(v *web.PlanValues) *string { return &v.BackoffBase },
		span:  func(p *client.Plan) *time.Duration { return &p.Backoff.Base },
	},
	{
		name: "backoffFactor", title: "Backoff, factor", effect: nextWait,
		value: func(v *web.PlanValues) *string { return &v.BackoffFactor },
		part:  func(p *client.Plan) *float64 { return &p.Backoff.Factor },
	},
	{
		name: "backoffCap", title: "Backoff, longest wait", effect: nextWait,
		value: func(v *web.PlanValues) *string { return &v.BackoffCap },
		span:  func(p *client.Plan) *time.Duration { return &p.Backoff.Cap },
	},
	{
		name: "backoffJitter", title: "Backoff, jitter", effect: nextWait,
		value: func(v *web.PlanValues) *string { return &v.BackoffJitter },
		part:  func(p *client.Plan) *float64 { return &p.Backoff.Jitter },
	},
}

func planOf(c *client.Plan) web.Plan {
	return web.Plan{
		Tier: string(c.Tier), Priority: c.Priority, MaxRetries: c.MaxRetries, HeartbeatTimeout: c.HeartbeatTimeout,
		MaxProcessingTime: c.MaxProcessingTime, MaxCrashes: c.MaxCrashes, OwnSlots: c.OwnSlots,
		Lines: cmp.Or(c.Lines, string(job.LinesOff)), MaxWait: c.MaxWait,
		Share: c.Share, BackoffBase: c.Backoff.Base, BackoffFactor: c.Backoff.Factor, BackoffCap: c.Backoff.Cap,
		BackoffJitter: c.Backoff.Jitter,
		TypeBackoffs:  len(c.TypeBackoff), Version: c.Version,
	}
}

// valuesOf returns a plan's values as the form shows them.
func valuesOf(c *client.Plan) (v web.PlanValues) {
	for _, f := range planFields {
		*f.value(&v) = f.text(c)
	}
	return v
}

func typed(form url.Values) (v web.PlanValues) {
	for _, f := range planFields {
		*f.value(&v) = strings.TrimSpace(form.Get(f.name))
	}
	return v
}

// text returns the setting as a user types it.
func (f *planField) text(c *client.Plan) string {
	switch {
	case f.whole != nil:
		return strconv.Itoa(*f.whole(c))
	case f.perhaps != nil:
		n := *f.perhaps(c)
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	case f.span != nil:
		return strconv.FormatFloat(f.span(c).Seconds(), 'f', -1, 64)
	case f.lines != nil:
		return cmp.Or(*f.lines(c), string(job.LinesOff))
	}
	return strconv.FormatFloat(*f.part(c), 'f', -1, 64)
}

func (f *planField) shown(c *client.Plan) string {
	switch text := f.text(c); {
	case f.span != nil:
		return text + " s"
	case f.perhaps != nil && text == "":
		return "none"
	default:
		return text + f.unit
	}
}

// longest is the longest time that a form accepts. job.Plan and the server decide what a plan may have.
const longest = 365 * 24 * time.Hour

// read sets the setting to the typed text. The reason says what is wrong with the text; "" = nothing.
func (f *planField) read(text string, c *client.Plan) (reason string) {
	if f.lines != nil {
		switch job.Lines(text) {
		case "": // the form of an older page does not have it: it stays as it is
		case job.LinesOff, job.LinesKey, job.LinesOwner:
			if text != f.text(c) {
				*f.lines(c) = text
			}
		default:
			return "must be off, key or owner"
		}
		return ""
	}
	if f.perhaps != nil {
		if text == "" {
			*f.perhaps(c) = nil
			return ""
		}
		n, reason := wholeNumber(text)
		if reason == "" {
			*f.perhaps(c) = &n // the number before may be another plan's too
		}
		return reason
	}
	if f.whole != nil {
		n, reason := wholeNumber(text)
		if reason == "" {
			*f.whole(c) = n
		}
		return reason
	}
	n, reason := number(text)
	if reason != "" {
		return reason
	}
	if f.part != nil {
		*f.part(c) = n
		return ""
	}
	ms := math.Round(n * 1000)
	if math.Abs(n*1000-ms) > 1e-6*max(ms, 1) {
		return "is finer than a millisecond"
	}
	*f.span(c) = time.Duration(ms) * time.Millisecond
	return ""
}

// wholeNumber reads what was typed as a whole number. The reason says what is wrong with it; "" = nothing.
func wholeNumber(text string) (n int, reason string) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, "must be a whole number, 0 or more"
	}
	return n, ""
}

// number is wholeNumber for numbers that need not be whole.
func number(text string) (n float64, reason string) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= longest.Seconds()) {
		return 0, "must be a number, 0 or more"
	}
	return n, ""
}

// compare writes into a view how its values would change the present plan, and returns the changed plan. Settings
// that the form does not have stay unchanged.
func compare(v *web.TierView, now *client.Plan) client.Plan {
	wanted := *now
	v.Plan, v.Errors, v.Changes = planOf(now), nil, []web.Change{}
	for _, f := range planFields {
		if reason := f.read(*f.value(&v.Values), &wanted); reason != "" {
			v.Errors = append(v.Errors, web.FieldError{Field: f.name, Reason: reason})
		}
	}
	if len(v.Errors) > 0 {
		return wanted
	}
	if err := check(&wanted); err != nil {
		v.Errors = []web.FieldError{planError(err.Error())}
		return wanted
	}
	for _, f := range planFields {
		if before, after := f.shown(now), f.shown(&wanted); before != after {
			v.Changes = append(v.Changes, web.Change{Field: f.title, Before: before, After: after, Effect: f.effect})
		}
	}
	return wanted
}

// check applies the server's checks of a plan, before the user is shown what it would change.
func check(c *client.Plan) error {
	return job.Plan{
		Tier: job.Tier(c.Tier), Priority: c.Priority, MaxRetries: c.MaxRetries, HeartbeatTimeout: c.HeartbeatTimeout,
		MaxProcessingTime: c.MaxProcessingTime, Share: c.Share, MaxCrashes: c.MaxCrashes, OwnSlots: c.OwnSlots,
		Lines: job.Lines(c.Lines), MaxWait: c.MaxWait, Backoff: job.Backoff(c.Backoff),
	}.Check()
}

// planErrors returns the errors of a refused plan by the form's fields.
func planErrors(e *apiError) []web.FieldError {
	var list []web.FieldError
	for _, one := range e.Fields {
		list = append(list, planError(one.Field+" "+one.Reason))
	}
	if len(list) == 0 {
		list = append(list, planError(e.Detail))
	}
	return list
}

// planError finds the field that a text is about: the text names the field first, after the tier. For a backoff,
// the first field of the backoff gets the error.
func planError(text string) web.FieldError {
	_, reason, found := strings.Cut(text, `": `)
	if !found {
		reason = text
	}
	for _, f := range planFields {
		if rest, ok := strings.CutPrefix(reason, f.name); ok {
			return web.FieldError{Field: f.name, Reason: strings.TrimSpace(strings.TrimPrefix(rest, "Ms"))}
		}
	}
	if rest, ok := strings.CutPrefix(reason, "backoff"); ok {
		return web.FieldError{Field: "backoffBase", Reason: strings.TrimSpace(rest)}
	}
	return web.FieldError{Field: "", Reason: reason}
}
