package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// Stats is the answer of GET /api/stats, over all processes. Counts, rates and times are those of the last hour.
type Stats struct {
	Tiers          []TierStats      `json:"tiers"`  // best first
	Queues         []QueueStats     `json:"queues"` // main, then the declared ones by name
	Capacity       Capacity         `json:"capacity"`
	Gate           Gate             `json:"gate"` // of this process
	Outbox         Outbox           `json:"outbox"`
	Watches        []WatchStats     `json:"watches"`
	Workers        []job.WorkerInfo `json:"workers"`
	DrainPerSecond float64          `json:"drainPerSecond"` // jobs that end, over all tiers
}

// TierStats has the figures of one tier.
type TierStats struct {
	Tier               job.Tier    `json:"tier"`
	Depth              int64       `json:"depth"` // ready jobs
	Scheduled          int64       `json:"scheduled"`
	OldestAgeSeconds   float64     `json:"oldestAgeSeconds"` // of the ready jobs; 0 = none waits
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

// QueueStats has the figures of one queue, over all tiers.
type QueueStats struct {
	Queue     string     `json:"queue"`
	Depth     int64      `json:"depth"` // ready jobs
	Scheduled int64      `json:"scheduled"`
	InFlight  int64      `json:"inFlight"`
	Workers   int        `json:"workers"` // processes that claim its jobs
	Paused    *time.Time `json:"paused"`  // since when; null: it is not paused
}

// Percentiles are in seconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Capacity is the number of ready jobs that were never claimed, and its bound.
type Capacity struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Gate says whether the gate lets submits in, and if not, why. Reason is shown to users.
type Gate struct {
	Open     bool   `json:"open"`
	Failures int    `json:"failures"` // consecutive errors of the infrastructure
	Reason   string `json:"reason"`
}

// Outbox counts the jobs that have ended and are not yet in SQL.
type Outbox struct {
	Jobs  int64 `json:"jobs"`
	Bytes int64 `json:"bytes"`
}

// WatchStats is the present time between two looks of a watch.
type WatchStats struct {
	Name         string  `json:"name"`
	DelaySeconds float64 `json:"delaySeconds"`
}

// stats serves GET /api/stats.
func (a *api) stats(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	stats, err := a.Overview.Stats(c.Request.Context())
	if err != nil {
		return err
	}
	return write(c, http.StatusOK, &struct {
		Stats
		Timestamp string `json:"timestamp"`
	}{stats, stamp(a.Now())})
}
