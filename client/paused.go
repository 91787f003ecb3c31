package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Pause says that no job of a scope begins. Jobs that run already run on.
type Pause struct {
	Scope string    // all, tier:NAME, queue:NAME, or for Client.Pause also type:NAME
	Since time.Time // set by the server
	Until time.Time // the pause ends by itself then; zero: it does not
	// For says the same to Client.Pause as a time from now on, by the server's clock, in whole seconds.
	For    time.Duration
	By     string // whose key asked for it; set by the server
	Reason string
	Refuse bool // submits of such jobs are refused too
}

// Paused is what is paused. InForce says that every process that claims jobs has read the latest change: from then on
// none of them begins such a job.
type Paused struct {
	Version   int64
	InForce   bool
	Items     []Pause
	Processes []PausedProcess
}

// PausedProcess is a process that claims jobs. Current says whether it has read the latest change.
type PausedProcess struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
	Current bool   `json:"current"`
}

// wirePause is a pause on the wire.
type wirePause struct {
	Scope  string     `json:"scope"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"`
	By     *string    `json:"by"`
	Reason *string    `json:"reason"`
	Refuse bool       `json:"refuse"`
}

// MarshalJSON encodes the pause as the server does.
func (p Pause) MarshalJSON() ([]byte, error) {
	w := wirePause{Scope: p.Scope, Since: p.Since, Refuse: p.Refuse}
	if !p.Until.IsZero() {
		w.Until = &p.Until
	}
	if p.By != "" {
		w.By = &p.By
	}
	if p.Reason != "" {
		w.Reason = &p.Reason
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes the pause as the server encodes it.
func (p *Pause) UnmarshalJSON(text []byte) error {
	var w wirePause
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*p = Pause{Scope: w.Scope, Since: w.Since, Refuse: w.Refuse}
	if w.Until != nil {
		p.Until = *w.Until
	}
	if w.By != nil {
		p.By = *w.By
	}
	if w.Reason != nil {
		p.Reason = *w.Reason
	}
	return nil
}

func pausedPath(scope string) string { return "admin/paused/" + url.PathEscape(scope) }

// Paused returns what is paused, and which processes know.
func (c *Client) Paused(ctx context.Context) (Paused, error) {
	got, _, err := fetch[Paused](ctx, c, call{verb: "paused", method: http.MethodGet, path: "admin/paused"})
	return got, err
}

// Pause pauses p.Scope until p.Until or for p.For, because of p.Reason: within about a second no process begins its
// jobs any more. Paused says when that is so. With p.Refuse their submits are refused meanwhile (ErrUnavailable). A
// pause of a scope that is paused already replaces what that pause says.
func (c *Client) Pause(ctx context.Context, p Pause) (Pause, error) {
	body, err := json.Marshal(struct {
		Until  time.Time `json:"until,omitzero"`
		For    int64     `json:"forSeconds,omitempty"`
		Reason string    `json:"reason,omitempty"`
		Refuse bool      `json:"refuse,omitempty"`
	}{p.Until, int64(p.For / time.Second), p.Reason, p.Refuse})
	if err != nil {
		return Pause{}, fmt.Errorf("pause: %w", err)
	}
	got, _, err := fetch[Pause](ctx, c, call{
		verb: "pause", method: http.MethodPut, path: pausedPath(p.Scope), body: body, changes: true,
	})
	return got, err
}

// Resume ends the pause of a scope. It returns no error if there is none.
func (c *Client) Resume(ctx context.Context, scope string) error {
	_, err := c.do(ctx, call{verb: "resume", method: http.MethodDelete, path: pausedPath(scope), changes: true})
	return err
}
