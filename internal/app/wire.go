package app

import (
	"context"
	"net/http"
	"time"

	"github.com/tierq/tierq/docs"
	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/events"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/sandbox"
	"github.com/tierq/tierq/internal/schema"
	"github.com/tierq/tierq/internal/telemetry"
	"github.com/tierq/tierq/internal/worker"
	"github.com/tierq/tierq/web"
)

// This file wires the parts with each other. server.go has the order in which they start.

// wireQueue makes the queue and the parts that observe it.
func (v *server) wireQueue() {
	c := v.config
	v.metrics = telemetry.NewMetrics(v.version, v.plans)
	v.gate = admission.NewGate(admission.GateOptions{
		Probe:       v.probe,
		Threshold:   c.GateThreshold,
		OutboxCount: int64(c.OutboxLimit),
		OutboxBytes: 256 << 20,
		Log:         v.log,
		Partitions:  c.Partitions, ProbePartition: func(ctx context.Context,
			p int) error {
			return v.queue.ProbePartition(ctx, p)
		},
	})
	v.queue = queue.New(v.stores.clients, v.plans, queue.Options{
		Nonce: v.nonce, Partitions: c.Partitions, PriorityBase: c.PriorityBase, Capacity: c.Capacity,
		ScheduledLimit: c.ScheduledLimit,
		LivingLimit:    c.Living(), LivingBytes: c.LivingBytes, LaterLimit: c.LaterLimit, LaterAge: c.LaterAge,
		UnknownFor:        c.UnknownFor,
		HeartbeatInterval: c.HeartbeatInterval, Retention: v.stores.retention(c.Retention),
		FailedRetention: v.stores.retention(c.FailedRetention),
		KeepEnded:       c.KeepEnded, Journal: c.Journaled(), KeepKeys: v.stores.keys(c.IdempotencyTTL),
		Embedded:        c.Embedded(),
		Log:             v.log,
		RememberedPlans: v.rememberedPlans, RememberedQueues: v.rememberedQueues,
		Queues: v.queueBook, Serves: c.Serves(), Asks: &v.asks, Pauses: v.pauseBook, Told: v.heard,
		RememberedPauses: v.rememberedPauses,
		RememberedPlaces: func(ctx context.Context, lost func(partition int) bool) error {
			return v.reserved.Rebuild(ctx, !c.Embedded(), lost)
		},
		Observe: func(script string, partition int, took time.Duration, err error) {
			// the script rate moves no job: a flood that keeps its few connections busy must not close the gate, and its
			// success says nothing
			if script != "rate" {
				v.gate.Observe(partition, err)
			}
			v.metrics.RedisOp(script, took)
		},
		Cancelled: v.metrics.Cancelled, // of waiting jobs; the cancels of running jobs are counted where they end
		Killed:    v.metrics.Killed,
		Expired:   v.metrics.Expired,
	})
	v.view = v.queue.View()
	v.stats = telemetry.NewStats(v.metrics, v.queue, v.log)
	v.places = &admission.Reserver{Redis: v.queue, Log: v.log}
	o := ledger.Options{
		Live: v.view, Mover: v.queue, Ready: v.view, Queues: v.queueBook,
		Archive: v.stores.archive, DeadLetters: v.stores.archive, Promises: v.stores.archive,
		Reasons: v.stores.archive, LiveLogs: v.view, KeptLogs: v.stores.archive, Plans: v.plans,
		Rows: v.stores.archive, Restorer: v.queue,
		Partitions: c.Partitions, Rate: c.RequeueRate, Log: v.log,
	}
	o.Flows, o.Now = v.stores.archive, v.view.Now
	o.Reserve = func(ctx context.Context, j *job.Job, quota int) error {
		_, err := v.places.Reserve(ctx, []job.Reservation{placeOf(j, quota)})
		return err
	}
	o.Given = func() {
		if c.Roles.Worker {
			v.pool.Wake()
		}
	}
	if c.Embedded() {
		o.Outbox = outbox{v}
	}
	v.stores.archive.OwesOfBatches(owesOfBatches(v.plans))
	v.stores.archive.PlacesOfBatches(func(b *job.Batch) []job.Reservation { return placesOwed(b, 0) })
	v.stores.archive.FreePlaces(func(ids []job.ID) { v.places.Free(context.Background(), ids) })
	v.stores.archive.TellCancelled(func(jobs []job.Job) {
		ids := make([]job.ID, len(jobs))
		for i := range jobs {
			v.metrics.Cancelled(jobs[i].Tier)
			ids[i] = jobs[i].ID
		}
		v.places.Free(context.Background(), ids)
	})
	// Without TIERQ_JOURNAL the journal has the members of batches alone, and the gate does not depend on it.
	journal := archive.JournalOptions{
		KeepKeys: v.stores.keys(c.IdempotencyTTL), Incarnation: v.queue.KnownIncarnation, Log: v.log,
	}
	if c.Journaled() {
		journal.Observe = v.gate.ObserveJournal
	}
	v.journal = archive.NewJournal(v.stores.archive, journal)
	o.Journal, o.Journaled = v.stores.archive, c.Journaled()
	v.reserved = &ledger.Places{
		SQL: v.stores.archive, Redis: v.queue, Partitions: c.Partitions, Now: v.view.Now, Log: v.log,
	}
	o.Places = v.reserved
	v.lines = &ledger.Lines{SQL: v.stores.archive, Redis: v.queue, Partitions: c.Partitions, Log: v.log}
	o.Lines = v.lines
	v.ledger = ledger.New(o)
	v.tiers = ledger.NewTiers(v.queue, v.stores.archive, v.plans, v.log)
	v.queues = ledger.NewQueues(v.queue, v.stores.archive, v.queueBook, v.log)
	v.pauses = ledger.NewPauses(ledger.PausesOptions{
		Redis: v.queue, SQL: v.stores.archive, Book: v.pauseBook, Queues: v.queueBook, Plans: v.plans,
		Strict: v.queue.Strict, Log: v.log,
	})
	v.viewPoller = newViewPoller(v.queue, v.self, v.seen, v.saw, v.metrics.Missing, v.log)
	v.viewPoller.remember, v.viewPoller.settings = v.remember, &comparer{here: c.Alike(), log: v.log}
	v.reconciler = recovery.NewReconciler(v.ledger, v.log)
	v.viewPoller.changed, v.viewPoller.journal = v.reconciler.Wake, c.Journaled()
	v.sqlAlive = newSharedLook(func(ctx context.Context) (struct{}, error) {
		return struct{}{}, v.stores.database.Ping(ctx)
	})
	v.letters = deadLetters(v.stores.archive, v.sqlAlive)
	v.ready = &readiness{gate: v.gate, sql: v.sqlAlive, sqlDown: v.stores.database.Down, accepts: c.Roles.API}
	if c.Roles.Worker {
		v.ready.pool = func() worker.Stats { return v.pool.Stats() }
	}
}

// wireRegistry registers every job type that this process runs, and the checks for submits.
func (v *server) wireRegistry(o Options) (err error) {
	v.registry = handler.NewRegistry()
	handlers.Register(v.registry)
	v.outgoing.register(v.registry, v.stores.archive)
	if o.Handlers != nil {
		o.Handlers(v.registry)
	}
	if v.config.Roles.API {
		v.types, err = offer(v.registry, v.config.TypesOn())
	}
	return err
}

// wireWork makes the parts that run jobs, reclaim them, and write their outcomes to SQL.
func (v *server) wireWork() error {
	c, log := v.config, v.log
	wake := func() {
		if c.Roles.Worker {
			v.pool.Wake()
		}
	}
	v.writer = archive.NewWriter(v.stores.archive, v.queue, archive.WriterOptions{
		Log: log, Owes: owes(v.plans), Give: func(ctx context.Context, rows []job.JournalRow, since time.Time) {
			if _, err := v.ledger.GiveRows(ctx, rows, since); err != nil {
				log.Warn("owed jobs could not be given to Redis now; the reconciler gives them", "jobs", len(rows), "err", err)
			}
			wake()
		},
	})
	v.crashed = recovery.NewWatch(job.Crashed, recovery.CrashedPace, v.reclaimer(), c.Partitions, v.recovered, log)
	v.stuck = recovery.NewWatch(job.Stuck, recovery.StuckPace, v.reclaimer(), c.Partitions, v.recovered, log)
	v.drainer = recovery.NewDrainer(v.queue, v.writer, c.Partitions, log)
	v.promoter = recovery.NewPromoter(v.queue, c.Partitions, wake, log)
	v.wireSchedules(wake)
	v.wireAudit()
	v.wireRetention()
	if !c.Embedded() {
		v.forgetter = recovery.NewForgetter(v.queue, log)
	}
	for _, loop := range []interface{ Wake() }{v.crashed, v.stuck, v.drainer, v.reconciler} {
		v.gate.OnOpen(loop.Wake)
	}
	v.hub = events.New(events.Options{Source: v.queue, Finder: v.ledger, Log: log})
	told := recorder{Writer: v.writer, hub: v.hub, wake: v.drainer.Wake}
	if c.Embedded() {
		told.hub = nil // waiting polls are answered once SQL has the end: the hub reads through the ledger
	}
	v.pool = worker.New(worker.Config{
		Slots: c.Workers, Partitions: c.Partitions, PriorityBase: c.PriorityBase, HeartbeatInterval: c.HeartbeatInterval,
		ResultLimit:  c.ResultLimit,
		DrainTimeout: c.DrainTimeout, Registry: v.registry, Plans: v.plans, Log: log, Nonce: v.nonce,
		Observe: v.metrics, Around: v.around(), Inputs: v.stores.archive.FlowInputs, Logs: v.queue,
		LogsOff: v.queueBook.LogsOff,
	}, v.work(), v.queue, v.queue, told)
	if c.Roles.API || c.Roles.Worker {
		v.wireLeasing()
	}
	if c.Roles.Worker {
		v.wirePush()
	}
	if c.Roles.API {
		v.wireAPI()
		if err := v.wireFaktory(v.door); err != nil {
			return err
		}
	}
	v.wireOps()
	v.wireHealth()
	return nil
}

func (v *server) wireAPI() {
	c := v.config
	wake := func(partition int) {
		if c.Roles.Worker {
			v.pool.WakeAt(partition)
		}
	}
	entry := admission.Options{
		Queue: waking{v.queue, wake}, Plans: v.plans, Gate: v.gate, Partitions: c.Partitions, Rate: v.view.Rate, Load: v.load,
		Pauses: v.pauseBook, Now: v.view.Now,
		Log: v.log,
	}
	entry.Journal, entry.JournalAll = v.journal, c.Journaled()
	entry.Known, entry.Incarnation = v.known, v.queue.KnownIncarnation
	door := &door{metrics: v.metrics, Admission: admission.New(entry)}
	places := &admission.Reserver{Redis: v.queue, Log: v.log, Refused: door.Refused}
	var extra []httpapi.Route
	for _, p := range web.Docs(docs.OpenAPI) {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			extra = append(extra, httpapi.Route{Method: method, Path: p.Path, Handler: p.Handler,
				Permission: httpapi.ForEverybody})
		}
	}
	if c.Demo {
		v.boxes = sandbox.NewManager(sandbox.ManagerOptions{Box: sandbox.Options{Log: v.log}})
	}
	whole := v.overview()
	var engine http.Handler
	face := v.wirePages(whole, func(w http.ResponseWriter, r *http.Request) { engine.ServeHTTP(w, r) })
	deps := httpapi.Deps{
		Submit: door, Leases: v.leasing, Jobs: jobs{v.ledger}, Dead: v.ledger, Requeue: v.ledger,
		Wait: v.hub, Events: streams{v.hub}, Line: v.view,
		Ready: v.ready, Types: v.types, Schemas: &schema.Checker{}, Plans: plans{v.plans, v.tiers}, Queues: v.declared(),
		Workers: workers{v.viewPoller, v.queue, &v.asks},
		Pauses:  pauses{v.pauseBook, v.pauses, v.view},
		Strict:  v.queue.Strict(),
		Batches: batches{ledger.NewBatches(v.stores.archive, v.ledger), door.Admission, places, v.metrics},
		Lines:   lines{v.lines, v.view}, Schedules: v.schedules, Partitions: c.Partitions,
		Flows:     flows{v.stores.archive, v.ledger, door.Admission, places, v.leasing, v.metrics, v.quotaOf},
		Artifacts: files{v.outgoing.files, v.ledger},
		Overview:  whole, Charts: whole, Pages: face, Live: v.live, Lost: v.face.Lost(), Audit: audits{v},
		CheckURL: v.outgoing.calls.CheckURL, WebhookKeys: v.outgoing.signer.Keys, Extra: extra, Doors: v.doors,
		Keys: v.keys, Changes: v.changes, Gateways: v.doors, FaktoryURL: v.faktoryURL, Insecure: c.Insecure,
		TrustedProxies: c.Proxies(), Redact: c.Redacted(), PayloadLimit: c.PayloadLimit, Log: v.log, Clock: v.view.Now,
	}
	if v.tracing != nil {
		deps.Trace = v.tracing.Submit
	}
	if c.OpsAddr == "" {
		deps.Metrics = v.metrics.Handler()
	}
	if c.H2C {
		deps.Requests = c.Connections // as many as HTTP/1 would allow
	}
	engine = httpapi.NewHandler(deps)
	limits := connectionLimits(c)
	limits.H2C = c.H2C
	v.http = httpapi.NewServer("TIERQ_ADDR", c.Addr, engine, limits, v.log)
	v.http.OnDrain(v.drainStreams)
	v.door = door
}

func (v *server) overview() *overview {
	o := &overview{
		asks:       &v.asks,
		viewPoller: v.viewPoller, plans: v.plans, gate: v.gate,
		queues: v.declared(), pauses: v.pauseBook, view: v.view, ledger: v.ledger, letters: v.letters,
		capacity: v.config.Capacity, journaled: v.config.Journaled(), watches: map[string]*recovery.Watch{},
	}
	if v.config.Roles.Recovery {
		o.watches["crashed"], o.watches["stuck"] = v.crashed, v.stuck
	}
	if v.config.Roles.Worker {
		o.pool = v.pool
	}
	return o
}
