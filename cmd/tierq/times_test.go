package main

import (
	"strings"
	"testing"
	"time"
)

// A duration without a unit is in seconds.
func TestReadDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3": 3 * time.Second, "0": 0, "1.5": 1500 * time.Millisecond, "3s": 3 * time.Second, "2m": 2 * time.Minute,
		"1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "7d": 7 * 24 * time.Hour, "-1": -time.Second,
		"-1s": -time.Second,
	} {
		if got, err := readDuration(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "soon", "3 s", "1e3", "NaN", "Inf", "0x10", "99999999999999999999", "1.5d", "99999d", "d", "3x",
	} {
		if got, err := readDuration(text); err == nil || !strings.Contains(err.Error(), "a bare number is seconds") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// Every duration of a client command takes a bare number as seconds, and its help says so.
func TestBareNumbersAreSeconds(t *testing.T) {
	f := newFake(t)
	for args, body := range map[string]string{
		"submit paid --delay 3":                               `{"delaySeconds":3}`,
		"submit paid --delay 3s":                              `{"delaySeconds":3}`,
		"submit paid --delay 2m":                              `{"delaySeconds":120}`,
		"tiers set public --heartbeat-timeout 5":              `"heartbeatTimeoutMs":5000`,
		"tiers set public --max-processing-time 60":           `"maxProcessingTimeMs":60000`,
		"tiers set public --backoff-base 1.5 --backoff-cap 9": `"baseMs":1500,"factor":2,"capMs":9000`,
	} {
		if end := f.cli(t, world{}, split(args)...); end.code != 0 || !strings.Contains(f.last().body, body) {
			t.Errorf("tierq %s: %+v %s", args, end, f.last().body)
		}
	}
	if end := f.cli(t, world{}, "poll", doneID, "--wait", "5", "--timeout", "30"); end.code != 0 {
		t.Errorf("%+v", end)
	}
	for args, says := range map[string]string{
		"stats --watch 0.05":         "at least 200ms",
		"submit paid --delay soon":   "a bare number is seconds",
		"submit paid --delay -3":     "--delay is negative",
		"stats --timeout tomorrow":   "a bare number is seconds",
		"dead list --before 3":       "such as 24h or 7d",
		"poll " + doneID + " --wait": "needs an argument",
	} {
		if end := f.cli(t, world{}, split(args)...); end.code != exitUsage || !strings.Contains(end.stderr, says) {
			t.Errorf("tierq %s: %+v", args, end)
		}
	}
	for _, args := range []string{"submit", "poll", "stats", "tiers set", "tiers create"} {
		if end := f.cli(t, world{}, append(split(args), "--help")...); !strings.Contains(end.stdout, "bare number") {
			t.Errorf("tierq %s --help does not say it:\n%s", args, end.stdout)
		}
	}
	// A key's life is given in hours or days. A bare number could be either, so it is refused with a message that
	// names the units.
	for _, args := range []string{"keys create --name x --role admin --expires 90", "keys rotate x --grace 24"} {
		end := f.cli(t, world{}, split(args)...)
		if end.code != exitUsage || !strings.Contains(end.stderr, "has no unit: say 90d or 12h") {
			t.Errorf("tierq %s: %+v", args, end)
		}
	}
	f.cli(t, world{}, "dead", "list", "--before", "7d", "--limit", "1")
	if got := f.last().path; !strings.Contains(got, "to=2026-04-24T12%3A00%3A00Z") {
		t.Error(got)
	}
}
