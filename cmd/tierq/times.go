package main

import (
	"fmt"
	"strings"
	"time"
)

// since says how long ago, or in how long, in one unit: 12s ago, in 5m.
func since(t, now time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + oneUnit(-d)
	}
	return oneUnit(d) + " ago"
}

func oneUnit(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// short is a duration without its zero parts: 5m, not 5m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// seconds is a number of seconds with three digits: 1.1ms, 10.4ms, 12s.
func seconds(n float64) string {
	d := time.Duration(n * float64(time.Second))
	switch {
	case d >= time.Minute:
		return short(d.Round(time.Second))
	case d >= time.Second:
		return short(d.Round(100 * time.Millisecond))
	case d >= time.Millisecond:
		return short(d.Round(100 * time.Microsecond))
	}
	return short(d.Round(time.Microsecond))
}

// readMoment reads RFC 3339, or a duration: so long ago. name is of the flag.
func readMoment(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, misused("--%s %q is neither a time such as 2026-05-01T12:00:00Z nor how long ago, such as 24h", name, text)
	}
	return t, nil
}
