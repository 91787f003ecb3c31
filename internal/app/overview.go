package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/telemetry"
	"github.com/tierq/tierq/internal/worker"
)

// overview answers what users and operators ask about the whole cluster.
type overview struct {
	viewPoller *viewPoller
	plans      *job.PlanBook
	queues     queues
	pauses     *job.PauseBook
	asks       *job.AskBook
	gate       *admission.Gate
	view       *queue.View
	ledger     *ledger.Ledger
	watches    map[string]*recovery.Watch
	pool       *worker.Pool // nil without the worker role
	capacity   int
	journaled  bool

	letters *sharedLook[int64] // how many dead letters there are
}

// statsWindow is the window of counts, rates and percentiles.
const statsWindow = time.Hour

// Stats is the answer of GET /api/stats: gauges of the viewPoller's last read, and counts of the last hour over
// all processes.
func (o *overview) Stats(ctx context.Context) (httpapi.Stats, error) {
	fields, err := o.view.ReadStats(ctx, statsWindow)
	if err != nil {
		return httpapi.Stats{}, err
	}
	recent := telemetry.Summary(fields, statsWindow)
	v := o.viewPoller.last()
	s := httpapi.Stats{
		Capacity: httpapi.Capacity{Used: v.levels.Filled, Limit: int64(o.capacity)},
		Gate:     o.gateState(),
		Outbox:   httpapi.Outbox{Jobs: v.levels.Outbox, Bytes: v.levels.OutboxBytes},
		Workers:  shownWorkers(v.workers, o.asks), DrainPerSecond: o.view.Rate(), Watches: []httpapi.WatchStats{},
	}
	for _, name := range []string{"crashed", "stuck"} {
		if w := o.watches[name]; w != nil {
			s.Watches = append(s.Watches, httpapi.WatchStats{Name: name, DelaySeconds: w.Delay().Seconds()})
		}
	}
	for _, p := range o.plans.All() {
		level, r := v.levels.Tiers[p.Tier], recent[p.Tier]
		s.Tiers = append(s.Tiers, httpapi.TierStats{
			Tier: p.Tier, Depth: level.Ready, Scheduled: level.Scheduled, InFlight: level.Running,
			OldestAgeSeconds:   v.age(p.Tier).Seconds(),
			SubmittedPerSecond: r.SubmittedPerSecond, FinishedPerSecond: r.FinishedPerSecond,
			WaitSeconds: seconds(r.Wait), RunSeconds: seconds(r.Run),
			Submitted: r.Submitted, Refused: r.Refused, Completed: r.Completed, Failed: r.Failed, Cancelled: r.Cancelled,
			Expired: r.Expired, Retried: r.Retried,
		})
	}
	s.Queues = o.queues.stats(v.workers)
	return s, nil
}

// Series is the answer of GET /api/stats/series.
func (o *overview) Series(ctx context.Context, window time.Duration) ([]httpapi.SeriesPoint, error) {
	buckets, err := o.view.ReadSeries(ctx, window)
	if err != nil {
		return nil, err
	}
	points := make([]httpapi.SeriesPoint, len(buckets))
	for i, b := range buckets {
		points[i] = httpapi.SeriesPoint{From: b.From, Long: b.Long, Tiers: map[job.Tier]httpapi.TierPoint{}}
		for tier, r := range telemetry.Summary(b.Counts, b.Long) {
			points[i].Tiers[tier] = httpapi.TierPoint{
				Submitted: r.Submitted, Completed: r.Completed, Failed: r.Failed, Cancelled: r.Cancelled, Refused: r.Refused,
				Expired: r.Expired, Retried: r.Retried,
				WaitSeconds: seconds(r.Wait), RunSeconds: seconds(r.Run),
			}
		}
	}
	return points, nil
}

// age returns how long ago the oldest ready job of a tier arrived, 0 if there is none.
func (v *view) age(t job.Tier) time.Duration {
	arrived, waits := v.oldest[t]
	if !waits {
		return 0
	}
	return max(v.at.Sub(arrived), 0)
}

func seconds(p telemetry.Percentiles) httpapi.Percentiles {
	return httpapi.Percentiles{P50: p.P50.Seconds(), P95: p.P95.Seconds(), P99: p.P99.Seconds()}
}

func (o *overview) gateState() httpapi.Gate {
	g := o.gate.State()
	return httpapi.Gate{Open: g.Open, Failures: g.Failures, Reason: g.Reason}
}

// Why is the answer of GET /api/jobs/{id}/why.
func (o *overview) Why(ctx context.Context, id job.ID) (httpapi.Why, error) {
	j, err := o.ledger.Find(ctx, id)
	if err != nil {
		return httpapi.Why{}, err
	}
	v := o.viewPoller.last()
	w := httpapi.Why{Job: j, Gate: o.gateState(), Rate: o.view.Rate()}
	if p, on := o.pauses.Of(j.QueueName(), j.Tier); on {
		w.Paused = &p
	}
	countSlots(&w, v.workers, o.plans.All())
	if j.Status == job.Pending {
		w.Ahead, err = o.view.Ahead(ctx, &j)
		if errors.Is(err, job.ErrNotFound) { // the job was claimed meanwhile: show it as it is now
			w.Job, err = o.ledger.Find(ctx, id)
		}
		if err != nil {
			return httpapi.Why{}, err
		}
		if place, err := o.view.LineOf(ctx, &j); err == nil {
			w.Line = &place
		} else if !errors.Is(err, job.ErrNotFound) {
			return httpapi.Why{}, err
		}
	}
	if j.Status == job.Held {
		if w.Holder, err = o.view.Holder(ctx, &j); err != nil && !errors.Is(err, job.ErrNotFound) {
			return httpapi.Why{}, err
		}
	}
	if j.Status == job.Waiting {
		w.Waits, w.WaitsOpen, w.WaitsAll, err = o.ledger.FlowWaits(ctx, id, waitsShown)
		if err != nil && !errors.Is(err, job.ErrNotFound) {
			return httpapi.Why{}, err
		}
	}
	w.Ahead.Running = map[job.Tier]int64{}
	for tier, level := range v.levels.Tiers {
		if level.Running > 0 {
			w.Ahead.Running[tier] = level.Running
		}
	}
	return w, nil
}

// waitsShown bounds the list of the jobs that a WAITING job waits for.
const waitsShown = 10

// countSlots counts the workers that take jobs of the job's queue, and their free slots.
func countSlots(w *httpapi.Why, workers []job.WorkerInfo, plans []job.Plan) {
	plan := slices.IndexFunc(plans, func(p job.Plan) bool { return p.Tier == w.Job.Tier })
	for i := range workers {
		one := &workers[i]
		if !one.Serves(w.Job.QueueName()) {
			continue
		}
		w.Workers++
		free := max(one.Slots-one.Running, 0)
		for tiers, n := range one.OwnFree {
			if n = min(n, free); n > 0 && (plan < 0 || tiers != tiersOf(plans, plans[plan].Priority)) {
				if w.OwnFree == nil {
					w.OwnFree = map[string]int{}
				}
				w.OwnFree[tiers] += n
				free -= n
			}
		}
		w.FreeSlots += free
	}
}

// Health is the answer of /actuator/health. If only SQL is down, the status is DEGRADED.
func (o *overview) Health(ctx context.Context) httpapi.Health {
	h := httpapi.Health{Status: "UP"}
	up := func(c *httpapi.Component, ok bool, otherwise, detail, whole string) {
		if c.Status = "UP"; !ok {
			c.Status, c.Detail = otherwise, detail
			if h.Status == "UP" || whole == "DOWN" {
				h.Status = whole
			}
		}
	}
	dead, err := o.letters.look(ctx)
	up(&h.Components.DB, err == nil, "DOWN", "SQL does not answer: outcomes wait in Redis", "DEGRADED")
	gate := o.gateState()
	up(&h.Components.Gate, gate.Open, "OUT_OF_SERVICE", gate.Reason, "OUT_OF_SERVICE")
	if s := o.gate.State(); len(s.Closed) > 0 {
		h.Components.Gate.Detail = partitionsClosed(s)
		if h.Status == "UP" {
			h.Status = "DEGRADED"
		}
	}
	v := o.viewPoller.last()
	up(&h.Components.Redis, v.ok, "DOWN", "Redis does not answer", "DOWN")
	h.Components.Job.Status = "UP"
	details := &h.Components.Job.Details
	for _, level := range v.levels.Tiers {
		details.PendingJobs += level.Ready
	}
	details.DeadJobs = dead
	if o.pool != nil {
		s := o.pool.Stats()
		details.ActiveThreads, details.PoolSize = s.Running, s.Slots
	}
	return h
}

// deadLetters counts dead letters. Counting many takes time, so a count is reused for countEvery; meanwhile SQL is
// only pinged. Calls do not overlap.
func deadLetters(a *archive.Archive, alive *sharedLook[struct{}]) *sharedLook[int64] {
	var (
		dead    int64 // the last count
		counted time.Time
	)
	return newSharedLook(func(ctx context.Context) (int64, error) {
		if !counted.IsZero() && time.Since(counted) < countEvery {
			_, err := alive.look(ctx)
			return dead, err
		}
		n, err := a.CountDead(ctx, job.Filter{})
		if err == nil {
			dead, counted = n, time.Now()
		}
		return n, err
	})
}

// countEvery is how long a count of dead letters is reused.
const countEvery = 5 * time.Second

// healthBound is the longest time of one call of a health check.
const healthBound = 500 * time.Millisecond
