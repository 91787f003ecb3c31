package app

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/events"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/telemetry"
	"github.com/tierq/tierq/internal/worker"
	"github.com/tierq/tierq/web"
)

// The types in this file adapt one package's types to another's interfaces, and count the calls.

// waking wakes the worker pool of this process right after a submit. The pool's own doorbell would take a round
// trip through Redis.
type waking struct {
	*queue.Queue
	wake func(partition int)
}

func (w waking) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error) {
	replies, err := w.Queue.Submit(ctx, partition, batch)
	if err == nil {
		w.wake(partition)
	}
	return replies, err
}

// recorder is how the pool's outcomes get to SQL: through the writer, or through the drainer for outcomes that the
// pool did not offer.
type recorder struct {
	*archive.Writer
	hub  *events.Hub
	wake func()
}

// Offer tells the callers that wait at the hub before the outcome is written, if there is a hub.
func (r recorder) Offer(o job.Outcome) bool {
	if r.hub != nil {
		r.hub.Ended(&o.Job)
	}
	return r.Writer.Offer(o)
}

func (r recorder) Wake() { r.wake() }

// outbox is the ledger's access to the writer and the drainer, which are made after the ledger.
type outbox struct{ v *server }

func (o outbox) Written() <-chan struct{} { return o.v.writer.Written() }

func (o outbox) Wake() { o.v.drainer.Wake() }

// door is admission with counts of its submits.
type door struct {
	*admission.Admission
	metrics *telemetry.Metrics
}

func (d *door) Submit(ctx context.Context, s job.Submission) (job.Accepted, error) {
	a, err := d.Admission.Submit(ctx, s)
	if ctx.Err() == nil {
		d.metrics.Submitted(s.Tier, telemetry.SubmitOf(a, err))
	}
	return a, err
}

func (d *door) SubmitBatch(ctx context.Context, batch []job.Submission) ([]job.Accepted, []error) {
	results := d.Admission.SubmitBatch(ctx, batch)
	accepted, errs := make([]job.Accepted, len(results)), make([]error, len(results))
	for i, r := range results {
		accepted[i], errs[i] = r.Accepted, r.Err
		if ctx.Err() == nil {
			d.metrics.Submitted(batch[i].Tier, telemetry.SubmitOf(r.Accepted, r.Err))
		}
	}
	return accepted, errs
}

// jobs is the ledger with the interface that the HTTP handlers call.
type jobs struct{ *ledger.Ledger }

func (j jobs) Cancel(ctx context.Context, id job.ID, reason string) (job.Word, error) {
	return j.CancelBecause(ctx, id, reason)
}

type streams struct{ *events.Hub }

func (s streams) Stream(lastID string) httpapi.Subscription { return s.Hub.Stream(lastID) }

// plans reads plans from the PlanBook and changes them in both stores.
type plans struct {
	*job.PlanBook
	*ledger.Tiers
}

// rememberedPlans reads SQL's plans for a Redis that lost its data. Its timeout leaves the caller time to go on
// without them.
func (v *server) rememberedPlans(ctx context.Context) ([]job.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return v.stores.archive.Plans(ctx)
}

// remember copies plans and queues to SQL.
func (v *server) remember(ctx context.Context) error {
	return errors.Join(v.tiers.Remember(ctx), v.queues.Remember(ctx), v.pauses.Remember(ctx))
}

// recovered counts a job that a watch reclaimed, by its tier, and tells the dashboard.
func (v *server) recovered(w job.Watch, r job.Reclaimed) {
	v.metrics.Recovered(r.Tier, w, r.Word)
	if v.feed != nil {
		v.feed.Took(w, r)
	}
}

// probe tries a tiny write to the stores: to Redis, unless each partition is probed separately, and with a journal
// to SQL, because nothing is accepted without a journal row.
func (v *server) probe(ctx context.Context) error {
	if v.config.Partitions == 1 {
		if err := v.queue.Probe(ctx); err != nil {
			return err
		}
	}
	if !v.config.Journaled() {
		return nil
	}
	return v.journal.Probe(ctx)
}

// known says whether Redis has a job.
func (v *server) known(ctx context.Context, id job.ID) (bool, error) {
	missing, err := v.queue.Missing(ctx, []job.ID{id})
	return len(missing) == 0, err
}

// work returns the queue from which the pool gets its jobs.
func (v *server) work() worker.Queue {
	if v.config.Embedded() {
		return worker.Journaled(v.queue, v.journal, v.log)
	}
	return v.queue
}

// takenBack is the queue of the watches of an embedded server. What they take back is also noted in the journal, so
// that no kill gives back a lease that its holder has lost.
type takenBack struct {
	*queue.Queue
	v *server
}

func (t takenBack) Reclaim(ctx context.Context, partition int, w job.Watch, skip int) ([]job.Reclaimed, error) {
	found, err := t.Queue.Reclaim(ctx, partition, w, skip)
	var waits []job.Waits
	for _, r := range found {
		if r.Word == job.OK {
			waits = append(waits, job.Waits{ID: r.ID, Attempt: r.Attempt, Spent: r.Spent, Crashed: r.Crashed})
		}
	}
	if len(waits) == 0 {
		return found, err
	}
	if err := t.v.journal.Waits(ctx, waits); err != nil {
		t.v.log.Warn("the journal could not record that jobs were taken back; a kill of the server before their next claim "+
			"gives the leases back", "jobs", len(waits), "err", err)
	}
	return found, err
}

// reclaimer returns the queue of the watches.
func (v *server) reclaimer() recovery.Reclaimer {
	if v.config.Embedded() {
		return takenBack{v.queue, v}
	}
	return v.queue
}

// around returns what surrounds a handler: a span, if traces are sent.
func (v *server) around() func(ctx context.Context, l *job.Lease) (context.Context, func(error)) {
	if v.tracing == nil {
		return nil
	}
	return v.tracing.Process
}

// load returns how much of the capacity is used, and at which level a tier is refused, as of the viewPoller's last
// read.
func (v *server) load(t job.Tier) (filled, limit int64) {
	plan, _ := v.plans.Plan(t)
	return v.viewPoller.last().levels.Filled, int64(v.config.Capacity) * int64(plan.Share) / 100
}

// slots returns how many slots of this process are busy and free.
func (v *server) slots() []telemetry.SlotLevel {
	if !v.config.Roles.Worker {
		return nil
	}
	s, plans := v.pool.Stats(), v.plans.All()
	common := telemetry.SlotLevel{Busy: s.Slots - s.Room.Common, Free: s.Room.Common}
	var all []telemetry.SlotLevel
	for i, own := range s.Own {
		free := s.Room.Own[i].Slots
		all = append(all, telemetry.SlotLevel{Tiers: tiersOf(plans, own.Priority), Busy: own.Slots - free, Free: free})
		common.Busy -= own.Slots
	}
	common.Busy = max(common.Busy, 0)
	return append(all, common)
}

// saw is called with each new view.
func (v *server) saw(now view) {
	s := telemetry.Snapshot{SQLUp: !v.stores.database.Down(), Schedulers: map[string]time.Duration{}}
	g := v.gate.State()
	if v.feed != nil {
		v.feed.Look(web.Gate{Open: g.Open, Failures: g.Failures, Threshold: g.Threshold, Reason: g.Reason})
	}
	s.GateOpen, s.GateFailures, s.Partitions, s.ClosedPartitions = g.Open, g.Failures, g.Partitions, g.Closed
	if v.config.Roles.Recovery {
		s.Schedulers["crashed"], s.Schedulers["stuck"] = v.crashed.Delay(), v.stuck.Delay()
		v.alone.look(queuesCheck(v.queueBook.All(), now.levels.Queues, now.workers), time.Now(), v.log)
	}
	s.Slots, s.Paused = v.slots(), map[string]time.Duration{}
	for _, p := range v.pauseBook.All().List {
		s.Paused[p.Scope] = max(v.view.Now().Sub(p.Since), 0)
	}
	if now.ok {
		v.gate.SetOutbox(now.levels.Outbox, now.levels.OutboxBytes)
		c := telemetry.Cluster{
			Tiers: map[job.Tier]telemetry.Level{}, CapacityUsed: now.levels.Filled, CapacityLimit: int64(v.config.Capacity),
			Outbox: now.levels.Outbox, OutboxBytes: now.levels.OutboxBytes, Workers: pools(now.workers),
		}
		for _, p := range v.plans.All() {
			c.Tiers[p.Tier] = telemetry.Level{}
		}
		for t, l := range now.levels.Tiers {
			c.Tiers[t] = telemetry.Level{Depth: l.Ready, Scheduled: l.Scheduled, InFlight: l.Running, OldestAge: now.age(t)}
		}
		for _, q := range v.declared().stats(now.workers) {
			c.Queues = append(c.Queues, telemetry.QueueLevel{Name: q.Queue, Workers: q.Workers,
				Count: job.QueueCount{Ready: q.Depth, Scheduled: q.Scheduled, Running: q.InFlight}})
		}
		s.Cluster = &c
	}
	v.metrics.SetSnapshot(s)
}
