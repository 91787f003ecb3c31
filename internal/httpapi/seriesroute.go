package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// Charts reports the recent figures of all processes.
type Charts interface {
	// Series returns the last 5 minutes, hour or 24 hours in buckets of one length, oldest first and without gaps. The
	// last bucket is still being counted.
	Series(ctx context.Context, window time.Duration) ([]SeriesPoint, error)
}

// SeriesPoint is one bucket of time. A tier that is missing in Tiers did nothing in this time.
type SeriesPoint struct {
	From  time.Time
	Long  time.Duration
	Tiers map[job.Tier]TierPoint
}

// TierPoint has the figures of a tier in one bucket. Percentiles of zero were not measured.
type TierPoint struct {
	Submitted, Completed, Failed, Cancelled, Expired, Refused, Retried int64

	WaitSeconds, RunSeconds Percentiles
}

// charted maps the name of each window to its length, and to the time keep for which an answer is reused. Reading a
// day takes a thousand buckets.
var charted = map[string]struct{ window, keep time.Duration }{
	"5m":  {5 * time.Minute, 2 * time.Second},
	"1h":  {time.Hour, 10 * time.Second},
	"24h": {24 * time.Hour, time.Minute},
}

// seriesBody is a series in a form for charts: a column for each figure.
type seriesBody struct {
	Window        string        `json:"window"`
	From          *string       `json:"from"` // start of the first bucket; null = there is none
	BucketSeconds float64       `json:"bucketSeconds"`
	Tiers         []tierColumns `json:"tiers"` // best first
	Timestamp     string        `json:"timestamp"`
}

type tierColumns struct {
	Tier        job.Tier          `json:"tier"`
	Submitted   []int64           `json:"submitted"`
	Completed   []int64           `json:"completed"`
	Failed      []int64           `json:"failed"`
	Cancelled   []int64           `json:"cancelled"`
	Expired     []int64           `json:"expired"`
	Refused     []int64           `json:"refused"`
	Retried     []int64           `json:"retried"`
	WaitSeconds percentileColumns `json:"waitSeconds"`
	RunSeconds  percentileColumns `json:"runSeconds"`
}

// percentileColumns has null for a bucket in which nothing was measured, which is not the same as zero seconds.
type percentileColumns struct {
	P50 []*float64 `json:"p50"`
	P95 []*float64 `json:"p95"`
	P99 []*float64 `json:"p99"`
}

// chart caches the answer for one window. The holder of its only token may read and change it.
type chart struct {
	token chan struct{}
	text  []byte
	made  time.Time
}

// seriesRoute returns the handler of GET /api/stats/series?window=, by default an hour. now is the host's clock, by
// which cached answers expire.
func seriesRoute(charts Charts, plans Plans, now func() time.Time) func(*gin.Context) error {
	kept := map[string]*chart{}
	for name := range charted {
		kept[name] = &chart{token: make(chan struct{}, 1)}
	}
	query := params[string]{"window": func(into *string, value string) error {
		if _, known := charted[value]; !known {
			return reason("must be 5m, 1h or 24h")
		}
		*into = value
		return nil
	}}
	return func(c *gin.Context) error {
		name := "1h"
		if err := query.read(c.Request.URL.RawQuery, &name); err != nil {
			return err
		}
		ctx, k := c.Request.Context(), kept[name]
		select {
		case k.token <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-k.token }()
		at := now()
		if age := at.Sub(k.made); k.text == nil || age < 0 || age >= charted[name].keep {
			points, err := charts.Series(ctx, charted[name].window)
			if err != nil {
				return err
			}
			text, err := encode(seriesOf(name, points, plans.All(), at))
			if err != nil {
				return err
			}
			k.text, k.made = text, at
		}
		writeText(c, http.StatusOK, k.text)
		return nil
	}
}

func seriesOf(name string, points []SeriesPoint, plans []job.Plan, at time.Time) *seriesBody {
	body := &seriesBody{Window: name, Tiers: []tierColumns{}, Timestamp: stamp(at)}
	if len(points) > 0 {
		body.From, body.BucketSeconds = when(points[0].From), points[0].Long.Seconds()
	}
	for _, plan := range plans {
		t := tierColumns{Tier: plan.Tier}
		for i := range points {
			t.add(points[i].Tiers[plan.Tier])
		}
		body.Tiers = append(body.Tiers, t)
	}
	return body
}

func (t *tierColumns) add(p TierPoint) {
	t.Submitted = append(t.Submitted, p.Submitted)
	t.Completed = append(t.Completed, p.Completed)
	t.Failed = append(t.Failed, p.Failed)
	t.Cancelled = append(t.Cancelled, p.Cancelled)
	t.Expired = append(t.Expired, p.Expired)
	t.Refused = append(t.Refused, p.Refused)
	t.Retried = append(t.Retried, p.Retried)
	t.WaitSeconds.add(p.WaitSeconds)
	t.RunSeconds.add(p.RunSeconds)
}

func (c *percentileColumns) add(p Percentiles) {
	c.P50 = append(c.P50, measured(p.P50))
	c.P95 = append(c.P95, measured(p.P95))
	c.P99 = append(c.P99, measured(p.P99))
}

func measured(seconds float64) *float64 {
	if seconds == 0 {
		return nil
	}
	return &seconds
}
