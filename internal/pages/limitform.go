package pages

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

// limitField is one limit of a key in the form. Exactly one of whole and part is set.
type limitField struct {
	name  string
	value func(*web.LimitValues) *string
	whole func(*client.LineLimits) *int
	part  func(*client.LineLimits) *float64
}

var limitFields = []limitField{
	{
		name: "running", value: func(v *web.LimitValues) *string { return &v.Running },
		whole: func(l *client.LineLimits) *int { return &l.Running },
	},
	{
		name: "weight", value: func(v *web.LimitValues) *string { return &v.Weight },
		whole: func(l *client.LineLimits) *int { return &l.Weight },
	},
	{
		name: "rate", value: func(v *web.LimitValues) *string { return &v.Rate },
		part: func(l *client.LineLimits) *float64 { return &l.Rate },
	},
	{
		name: "burst", value: func(v *web.LimitValues) *string { return &v.Burst },
		whole: func(l *client.LineLimits) *int { return &l.Burst },
	},
	{
		name: "waiting", value: func(v *web.LimitValues) *string { return &v.Waiting },
		whole: func(l *client.LineLimits) *int { return &l.Waiting },
	},
}

// limitValues returns limits as the form shows them.
func limitValues(l *client.LineLimits) web.LimitValues {
	v := web.LimitValues{Strict: l.Strict}
	for _, f := range limitFields {
		text := ""
		switch {
		case f.part != nil && *f.part(l) > 0:
			text = strconv.FormatFloat(*f.part(l), 'f', -1, 64)
		case f.whole != nil && *f.whole(l) > 0:
			text = strconv.Itoa(*f.whole(l))
		}
		*f.value(&v) = text
	}
	return v
}

// readLimits changes limits as the form says, and keeps what was typed in the view.
func readLimits(form url.Values, l *client.LineLimits, v *web.LineView) {
	l.Strict = form.Get("strict") != ""
	v.Values.Strict = l.Strict
	for _, f := range limitFields {
		text := strings.TrimSpace(form.Get(f.name))
		*f.value(&v.Values) = text
		if text == "" {
			text = "0" // no limit
		}
		var reason string
		if f.whole != nil {
			*f.whole(l), reason = wholeNumber(text)
		} else {
			*f.part(l), reason = number(text)
		}
		if reason != "" {
			v.Errors = append(v.Errors, web.FieldError{Field: f.name, Reason: reason})
		}
	}
}

// readPause returns the pause that the form asks for, and keeps what was typed in the view.
func readPause(form url.Values, v *web.LineView) *client.Pause {
	v.Reason, v.Minutes = strings.TrimSpace(form.Get("reason")), strings.TrimSpace(form.Get("minutes"))
	pause := &client.Pause{Reason: v.Reason}
	if v.Minutes == "" {
		return pause
	}
	minutes, reason := number(v.Minutes)
	if pause.For = time.Duration(minutes * float64(time.Minute)); reason == "" && pause.For < time.Second {
		reason = "must be a second or more"
	}
	if reason != "" {
		v.Errors = append(v.Errors, web.FieldError{Field: "minutes", Reason: reason})
	}
	return pause
}
