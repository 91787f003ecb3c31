package app

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/pages"
	"github.com/tierq/tierq/internal/telemetry"
	"github.com/tierq/tierq/web"
)

// readers returns the functions from which the dashboard's snapshots are made.
func (o *overview) readers() pages.Readers {
	return pages.Readers{
		Gauges: o.gauges, Counted: o.countedWithin, EndedPerMinute: o.endedPerMinute, Leases: o.leases,
		Dead: o.letters.look, Now: time.Now,
	}
}

// gauges returns the gauges of the viewPoller's last read.
func (o *overview) gauges() (web.Snapshot, error) {
	v := o.viewPoller.last()
	if !v.ok {
		return web.Snapshot{}, fmt.Errorf("no view of the cluster: %w", job.ErrUnavailable)
	}
	g := o.gate.State()
	s := web.Snapshot{
		At: o.view.Now(), Gate: web.Gate{Open: g.Open, Failures: g.Failures, Threshold: g.Threshold, Reason: g.Reason},
		Capacity: web.Capacity{Used: v.levels.Filled, Limit: int64(o.capacity)},
		Outbox:   web.Outbox{Jobs: v.levels.Outbox, Bytes: v.levels.OutboxBytes},
		Journal:  web.Journal{On: o.journaled}, PerSecond: o.view.Rate(),
	}
	for _, name := range []string{"crashed", "stuck"} {
		if w := o.watches[name]; w != nil {
			watch := web.Watch{Name: name, DelaySeconds: w.Delay().Seconds()}
			if in, moves := w.Next(); moves {
				watch.NextAt = s.At.Add(in)
			}
			s.Watches = append(s.Watches, watch)
		}
	}
	for _, w := range shownWorkers(v.workers, o.asks) {
		s.Workers = append(s.Workers, web.Worker{
			Name: w.Name, State: pages.WorkerWords(w.Kind, w.Language, string(w.State)), Asked: string(w.State),
			Host: w.Host, PID: w.PID, Version: w.Version,
			Slots: w.Slots, Running: w.Running, Stuck: w.Stuck,
			StartedAt: w.StartedAt, SeenAt: w.SeenAt,
		})
	}
	for _, q := range o.queues.stats(v.workers) {
		one := web.Queue{Queue: q.Queue, Depth: q.Depth, Scheduled: q.Scheduled, InFlight: q.InFlight, Workers: q.Workers}
		of, _ := o.queues.Find(q.Queue)
		one.Push = of.Push.On()
		if p, on := o.pauses.Find(job.PauseQueue(q.Queue)); on {
			one.Paused = p.Words()
		}
		s.Queues = append(s.Queues, one)
	}
	for _, p := range o.plans.All() {
		level := v.levels.Tiers[p.Tier]
		paused := "" // of the tier, or of everything
		if of, on := o.pauses.Of("", p.Tier); on {
			paused = of.Words()
		}
		s.Tiers = append(s.Tiers, web.Lane{
			Tier: string(p.Tier), Depth: level.Ready, Scheduled: level.Scheduled, InFlight: level.Running,
			OldestAgeSeconds: v.age(p.Tier).Seconds(), Paused: paused,
			Plan: &web.Plan{
				Tier: string(p.Tier), Priority: p.Priority, MaxRetries: p.MaxRetries, HeartbeatTimeout: p.HeartbeatTimeout,
				MaxProcessingTime: p.MaxProcessingTime, MaxCrashes: p.MaxCrashes, OwnSlots: p.OwnSlots, Share: p.Share,
				Lines: string(p.Lines), MaxWait: p.MaxWait, Version: p.Version,
			},
		})
	}
	return s, nil
}

func (o *overview) countedWithin(ctx context.Context, window time.Duration) (map[job.Tier]pages.Counted, error) {
	fields, err := o.view.ReadStats(ctx, window)
	if err != nil {
		return nil, err
	}
	recent := telemetry.Summary(fields, window)
	counted := make(map[job.Tier]pages.Counted, len(recent))
	for tier, r := range recent {
		counted[tier] = pages.Counted{
			SubmittedPerSecond: r.SubmittedPerSecond, FinishedPerSecond: r.FinishedPerSecond, Refused: r.Refused,
			Completed: r.Completed,
			Failed:    r.Failed, Cancelled: r.Cancelled, Expired: r.Expired, Retried: r.Retried,
			WaitSeconds: web.Percentiles(seconds(r.Wait)), RunSeconds: web.Percentiles(seconds(r.Run)),
		}
	}
	return counted, nil
}

func (o *overview) endedPerMinute(ctx context.Context) (map[job.Tier][]int64, error) {
	series, err := o.view.ReadSeries(ctx, time.Hour)
	if err != nil {
		return nil, err
	}
	ended := map[job.Tier][]int64{}
	for i, bucket := range series {
		for tier, r := range telemetry.Summary(bucket.Counts, bucket.Long) {
			if ended[tier] == nil {
				ended[tier] = make([]int64, len(series))
			}
			ended[tier][i] = r.Completed + r.Failed + r.Cancelled + r.Expired
		}
	}
	return ended, nil
}

func (o *overview) leases(ctx context.Context, most int) ([]web.Lease, error) {
	running, err := o.view.InFlight(ctx, most)
	if err != nil {
		return nil, err
	}
	list := make([]web.Lease, len(running))
	for i, r := range running {
		list[i] = web.Lease{
			JobID: string(r.ID), Tier: string(r.Tier), Type: r.Type, Worker: r.Worker, Attempt: r.Attempt,
			StartedAt:   r.StartedAt,
			HeartbeatBy: r.HeartbeatBy, EndBy: r.EndBy,
		}
		if p := r.Progress; p != nil { // without the note, which may be hidden from other callers of the stream
			list[i].Progress = &web.LeaseProgress{Done: p.Done, Total: p.Total}
		}
	}
	return list, nil
}
