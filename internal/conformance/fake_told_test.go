package conformance

import (
	"context"
	"encoding/json"
	"time"
)

// What the fake server is told: heartbeats, reports, lines of logs, and questions about flows.

func (f *fake) heartbeat(_ context.Context, body []byte) map[string]any {
	var c struct {
		Leases []struct {
			Lease      string          `json:"lease"`
			Save       int             `json:"save"`
			Checkpoint json.RawMessage `json:"checkpoint"`
			Progress   *struct {
				Step  *int64          `json:"step"`
				Done  *int64          `json:"done"`
				Total *int64          `json:"total"`
				Note  json.RawMessage `json:"note"`
			} `json:"progress"`
		} `json:"leases"`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.understand(body, &c)
	f.expire()
	now, pulses := time.Now(), []any{}
	for _, b := range c.Leases {
		j := f.leases[b.Lease]
		if j == nil || j.lease != b.Lease || j.word == "LOST" || j.report != nil {
			pulses = append(pulses, map[string]any{"word": "LOST"})
			continue
		}
		j.until, j.beats = now.Add(f.leaseFor), append(j.beats, now)
		if b.Save > 0 {
			f.checkCheckpoint(j, b.Checkpoint)
			j.saved = append(j.saved, string(b.Checkpoint))
		}
		if p := b.Progress; p != nil {
			j.told = append(j.told, f.checkProgress(j, now, p.Step, p.Done, p.Total, p.Note))
		}
		word := "OK"
		if j.word != "" {
			word = j.word
		}
		pulses = append(pulses, map[string]any{"word": word, "leaseForMs": f.leaseFor.Milliseconds()})
	}
	return map[string]any{"state": "run", "leases": pulses}
}

// take takes reports. The first one of a lease counts, and a repeat gets the same answer. f.mu is held.
func (f *fake) take(reports []json.RawMessage) []any {
	f.expire()
	answers := []any{}
	for _, text := range reports {
		var e struct {
			Lease string `json:"lease"`
		}
		f.understand(text, &e)
		j := f.leases[e.Lease]
		switch {
		case j == nil:
			f.wrongf("a report of a lease that was never given: %s", text)
			fallthrough
		case j.lease != e.Lease || j.word == "LOST":
			answers = append(answers, map[string]any{"error": problem(409, "LEASE_LOST", "the lease was lost")})
			continue
		case j.report == nil:
			j.report, j.reported = text, time.Now()
			f.checkReport(j, text)
		case !same(j.report, text):
			f.wrongf("another report for one lease: %.300s, %.300s", j.report, text)
		}
		answers = append(answers, map[string]any{"outcome": "COMPLETED"})
	}
	return answers
}

func (f *fake) reports(_ context.Context, body []byte) map[string]any {
	var c struct {
		Reports []json.RawMessage `json:"reports"`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.understand(body, &c)
	return map[string]any{"reports": f.take(c.Reports)}
}

// line is a line of a job's log.
type line struct {
	Level string          `json:"level"`
	Text  *string         `json:"text"`
	Attrs json.RawMessage `json:"attrs"`
	AgeMs float64         `json:"ageMs"`
}

func (f *fake) logs(_ context.Context, body []byte) map[string]any {
	var c struct {
		Logs []struct {
			Lease string  `json:"lease"`
			From  int     `json:"from"`
			Lines []*line `json:"lines"`
		} `json:"logs"`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.understand(body, &c)
	answers := []any{}
	for _, l := range c.Logs {
		j := f.leases[l.Lease]
		if j == nil || j.lease != l.Lease {
			answers = append(answers, map[string]any{"error": problem(409, "LEASE_LOST", "the lease was lost")})
			continue
		}
		for _, one := range l.Lines {
			if one != nil {
				f.checkLine(j, one)
				j.lines = append(j.lines, *one)
			}
		}
		answers = append(answers, map[string]any{"outcome": "OK"})
	}
	return map[string]any{"logs": answers}
}

func (f *fake) inputs(context.Context, []byte) map[string]any {
	return map[string]any{"inputs": []any{map[string]any{"name": "a", "jobId": "x", "status": "COMPLETED", "result": 1}}}
}

func (f *fake) flow(context.Context, []byte) map[string]any {
	return map[string]any{"jobs": map[string]any{"a/b": "job-1"}}
}
