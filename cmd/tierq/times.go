package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// since formats the time from now to t in one unit: 12s ago, in 5m.
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

// short formats a duration without zero parts: 5m, not 5m0s.
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

// seconds formats a number of seconds with three digits: 1.1ms, 10.4ms, 12s.
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

// readDuration reads the duration of a flag: 30s, 2m, 1h30m or 7d; a bare number is seconds.
func readDuration(text string) (time.Duration, error) {
	bare := bareNumber.MatchString(text)
	if n, err := strconv.ParseFloat(text, 64); bare && err == nil && math.Abs(n) < math.MaxInt64/float64(time.Second) {
		return time.Duration(n * float64(time.Second)), nil
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= mostDays {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && !bare {
		return d, nil
	}
	return 0, errors.New("no time such as 30s, 2m, 1h30m or 7d; a bare number is seconds")
}

var bareNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// mostDays is the limit of a number of days, a hundred years, which fits a time.Duration.
const mostDays = 36500

// durationFlag is a flag whose value readDuration reads.
type durationFlag struct{ to *time.Duration }

// durationVar adds a flag for a duration. The usage names its placeholder in backquotes.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var(durationFlag{to}, name, usage)
}

func (d durationFlag) Set(text string) (err error) {
	*d.to, err = readDuration(text)
	return err
}

// String returns "" for the zero duration, so that the help shows no default.
func (d durationFlag) String() string {
	if d.to == nil || *d.to == 0 {
		return ""
	}
	return short(*d.to)
}

func (durationFlag) Type() string { return "time" }

// readMoment reads a time in RFC 3339, or a duration before now. name is that of the flag.
func readMoment(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := readDuration(text); err == nil && d >= 0 && !bareNumber.MatchString(text) {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, misused("--%s %q is neither a time such as 2026-05-01T12:00:00Z "+
			"nor how long ago, such as 24h or 7d", name, text)
	}
	return t, nil
}
