package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Stats is the server's present activity. Rates are per second; counts and percentiles cover the last hour.
type Stats struct {
	Tiers          []TierStats  `json:"tiers"`  // best first
	Queues         []QueueStats `json:"queues"` // MainQueue, then the declared ones by name
	Capacity       Capacity     `json:"capacity"`
	Gate           Gate         `json:"gate"`
	Outbox         Outbox       `json:"outbox"`
	Watches        []WatchStats `json:"watches"`
	Workers        []Worker     `json:"workers"`
	DrainPerSecond float64      `json:"drainPerSecond"` // jobs that end, per second
	Timestamp      time.Time    `json:"timestamp,omitzero"`

	Raw json.RawMessage `json:"-"` // the whole answer, for members that this version of the client does not know
}

// TierStats is the activity of one tier.
type TierStats struct {
	Tier               Tier        `json:"tier"`
	Depth              int64       `json:"depth"` // ready jobs
	Scheduled          int64       `json:"scheduled"`
	OldestAgeSeconds   float64     `json:"oldestAgeSeconds"` // of the ready job that has waited longest
	InFlight           int64       `json:"inFlight"`
	SubmittedPerSecond float64     `json:"submittedPerSecond"`
	FinishedPerSecond  float64     `json:"finishedPerSecond"`
	WaitSeconds        Percentiles `json:"waitSeconds"`
	RunSeconds         Percentiles `json:"runSeconds"`
	Submitted          int64       `json:"submitted"`
	Refused            int64       `json:"refused"`
	Completed          int64       `json:"completed"`
	Failed             int64       `json:"failed"`
	Cancelled          int64       `json:"cancelled"`
	Expired            int64       `json:"expired"`
	Retried            int64       `json:"retried"`
}

// QueueStats is the present state of one queue.
type QueueStats struct {
	Queue     string    `json:"queue"`
	Depth     int64     `json:"depth"` // ready jobs
	Scheduled int64     `json:"scheduled"`
	InFlight  int64     `json:"inFlight"`
	Workers   int       `json:"workers"`         // processes that claim its jobs
	Paused    time.Time `json:"paused,omitzero"` // since when; zero: it is not paused
}

// Percentiles of a time, in seconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Capacity is the number of accepted jobs that no worker has claimed yet, and its limit.
type Capacity struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Gate is the server's health gate. While it is closed the server refuses submits.
type Gate struct {
	Open     bool   `json:"open"`
	Failures int    `json:"failures"`
	Reason   string `json:"reason,omitempty"`
}

// Outbox counts the ended jobs whose outcome is not in SQL yet.
type Outbox struct {
	Jobs  int64 `json:"jobs"`
	Bytes int64 `json:"bytes"`
}

// WatchStats is the present delay of a watch over running jobs.
type WatchStats struct {
	Name         string  `json:"name"`
	DelaySeconds float64 `json:"delaySeconds"`
}

// Stats returns the server's present activity.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	s, a, err := fetch[Stats](ctx, c, call{verb: "stats", method: http.MethodGet, path: "api/stats"})
	s.Raw = a.body
	return s, err
}

// Health is the state of the server and its stores: UP, DEGRADED, DOWN or OUT_OF_SERVICE.
type Health struct {
	Status     string               `json:"status"`
	Components map[string]Component `json:"components,omitempty"`

	Raw json.RawMessage `json:"-"` // the whole answer
}

// Component is one part of a Health.
type Component struct {
	Status  string          `json:"status"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Health returns the server's health. The answer DOWN is not an error.
func (c *Client) Health(ctx context.Context) (Health, error) {
	k := call{verb: "health", method: http.MethodGet, path: "actuator/health", also: http.StatusServiceUnavailable}
	h, a, err := fetch[Health](ctx, c, k)
	h.Raw = a.body
	return h, err
}

// Readiness says whether the server accepts jobs: at UP and DEGRADED it does, at OUT_OF_SERVICE it does not.
type Readiness struct {
	Status string  `json:"status"`
	Checks []Check `json:"checks"`
}

// Check is one part of a Readiness.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Ready returns whether the server accepts jobs. The answer that it does not is not an error.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	k := call{verb: "ready", method: http.MethodGet, path: "readyz", also: http.StatusServiceUnavailable}
	k.query = map[string][]string{"verbose": {""}}
	r, _, err := fetch[Readiness](ctx, c, k)
	return r, err
}
