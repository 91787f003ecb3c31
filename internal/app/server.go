package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tierq/tierq/docs"
	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/events"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/telemetry"
	"github.com/tierq/tierq/internal/worker"
	"github.com/tierq/tierq/web"
)

// server is the rooms of one process, wired, in the order they start.
type server struct {
	config  config.Config
	nonce   string
	version string
	began   time.Time
	log     *slog.Logger

	stores   *stores
	outgoing *outgoing
	plans    *job.PlanBook
	registry *job.Registry

	gate    *admission.Gate
	queue   *queue.Queue
	pulse   *pulse
	ready   *readiness
	metrics *telemetry.Metrics
	stats   *telemetry.Stats
	tracing *telemetry.Tracing
	ledger  *ledger.Ledger
	writer  *archive.Writer
	pool    *worker.Pool
	hub     *events.Hub
	http    *httpapi.Server // nil without the api role, as is door
	door    *door
	ops     *httpapi.Server // nil without an address of its own

	crashed, stuck *recovery.Watch
	promoter       *recovery.Promoter
	drainer        *recovery.Drainer
	requeuer       *recovery.Requeuer

	parts []part
}

func newServer(c config.Config, s *stores, out *outgoing, o Options) (*server, error) {
	v := &server{config: c, nonce: newNonce(), version: o.Version, began: time.Now(), log: o.Log, stores: s, outgoing: out, plans: &job.PlanBook{}}
	var err error
	if v.tracing, err = telemetry.NewTracing(c.OTLPEndpoint, o.Version, o.Log); err != nil {
		return nil, err
	}
	v.wireQueue()
	v.wireRegistry(o)
	v.wireWork()
	v.order()
	return v, nil
}

// wireQueue makes the queue and what looks at it.
func (v *server) wireQueue() {
	c := v.config
	v.metrics = telemetry.NewMetrics(v.version, v.plans)
	v.gate = admission.NewGate(admission.GateOptions{
		Probe:       func(ctx context.Context) error { return v.queue.Probe(ctx) },
		Threshold:   c.GateThreshold,
		OutboxCount: int64(c.OutboxLimit),
		OutboxBytes: 256 << 20,
		Log:         v.log,
	})
	v.queue = queue.New(v.stores.clients, v.plans, queue.Options{
		Nonce: v.nonce, Partitions: c.Partitions, PriorityBase: c.PriorityBase, Capacity: c.Capacity, ScheduledLimit: c.ScheduledLimit,
		HeartbeatInterval: c.HeartbeatInterval, Retention: v.stores.retention(c.Retention), FailedRetention: v.stores.retention(c.FailedRetention),
		KeepEnded: c.KeepEnded, KeepKeys: v.stores.keys(c.IdempotencyTTL), Embedded: c.Embedded(), Log: v.log,
		Observe: func(script string, took time.Duration, err error) {
			v.gate.Observe(err)
			v.metrics.RedisOp(script, took)
		},
	})
	v.stats = telemetry.NewStats(v.metrics, v.queue, v.log)
	v.ledger = ledger.New(ledger.Options{
		Live: v.queue, Mover: v.queue, Archive: v.stores.archive, Letters: v.stores.archive, Promises: v.stores.archive, Plans: v.plans,
		Partitions: c.Partitions, Rate: c.RequeueRate, Log: v.log,
	})
	v.pulse = newPulse(v.queue, v.self, v.saw, v.log)
	v.ready = &readiness{gate: v.gate, archive: v.stores.archive}
}

// wireRegistry registers every job type this process runs, and checks at submit.
func (v *server) wireRegistry(o Options) {
	v.registry = job.NewRegistry()
	handlers.Register(v.registry)
	v.outgoing.register(v.registry, v.stores.archive)
	if o.Handlers != nil {
		o.Handlers(v.registry)
	}
}

// wireWork makes what runs jobs, brings them back, and brings their endings to SQL.
func (v *server) wireWork() {
	c, log := v.config, v.log
	wake := func() {
		if c.Roles.Worker {
			v.pool.Wake()
		}
	}
	v.writer = archive.NewWriter(v.stores.archive, v.queue, archive.WriterOptions{Log: log, Announce: callbacks(v.queue, v.plans, wake)})
	v.crashed = recovery.NewWatch(job.Crashed, recovery.CrashedPace, v.queue, c.Partitions, v.recovered, log)
	v.stuck = recovery.NewWatch(job.Stuck, recovery.StuckPace, v.queue, c.Partitions, v.recovered, log)
	v.drainer = recovery.NewDrainer(v.queue, v.writer, c.Partitions, log)
	v.requeuer = recovery.NewRequeuer(v.stores.archive, v.ledger, log)
	v.promoter = recovery.NewPromoter(v.queue, c.Partitions, wake, log)
	for _, loop := range []interface{ Wake() }{v.crashed, v.stuck, v.drainer, v.requeuer} {
		v.gate.OnOpen(loop.Wake)
	}
	v.pool = worker.New(worker.Config{
		Slots: c.Workers, Partitions: c.Partitions, HeartbeatInterval: c.HeartbeatInterval, ResultLimit: c.ResultLimit,
		DrainTimeout: c.DrainTimeout, Registry: v.registry, Plans: v.plans, Log: log, Nonce: v.nonce,
		Observe: v.metrics, Around: v.around(),
	}, v.queue, v.queue, v.queue, recorder{Writer: v.writer, wake: v.drainer.Wake})
	v.hub = events.New(events.Options{Source: v.queue, Finder: v.ledger, Log: log})
	if c.Roles.API {
		v.wireAPI(wake)
	}
	if c.OpsAddr != "" {
		v.ops = httpapi.NewServer("TIERQ_OPS_ADDR", c.OpsAddr, httpapi.NewHandler(httpapi.Deps{Ready: v.ready, Log: log, HealthOnly: true, Extra: v.scraped()}), log)
	}
}

// scraped is where the metrics are.
func (v *server) scraped() []httpapi.Route {
	return []httpapi.Route{{Method: http.MethodGet, Path: "/metrics", Handler: v.metrics.Handler()}}
}

func (v *server) wireAPI(wake func()) {
	c := v.config
	door := &door{metrics: v.metrics, Admission: admission.New(admission.Options{
		Queue: waking{v.queue, wake}, Plans: v.plans, Gate: v.gate, Partitions: c.Partitions, Rate: v.queue.Rate, Load: v.load, Log: v.log,
	})}
	extra := append(v.scraped(), httpapi.Route{Method: http.MethodGet, Path: "/", Handler: http.RedirectHandler("/docs", http.StatusFound)})
	for _, p := range web.Docs(docs.OpenAPI) {
		extra = append(extra, httpapi.Route{Method: http.MethodGet, Path: p.Path, Handler: p.Handler}, httpapi.Route{Method: http.MethodHead, Path: p.Path, Handler: p.Handler})
	}
	deps := httpapi.Deps{
		Submit: door, Jobs: jobs{v.ledger, v.metrics}, Dead: v.ledger, Requeue: v.ledger, Wait: v.hub, Events: streams{v.hub}, Line: v.queue,
		Ready: v.ready, Types: v.registry, Plans: plans{v.plans, v.queue, v.log}, Artifacts: files{v.outgoing.files}, Overview: v.overview(),
		CheckURL: v.outgoing.calls.CheckURL, Extra: extra, PayloadLimit: c.PayloadLimit, Log: v.log, Clock: v.queue.Now,
	}
	if v.tracing != nil {
		deps.Trace = v.tracing.Submit
	}
	v.http = httpapi.NewServer("TIERQ_ADDR", c.Addr, httpapi.NewHandler(deps), v.log)
	v.http.OnDrain(v.hub.Drain)
	v.door = door
}

func (v *server) overview() *overview {
	o := &overview{
		pulse: v.pulse, plans: v.plans, gate: v.gate, queue: v.queue, ledger: v.ledger, archive: v.stores.archive, stats: v.stats,
		capacity: v.config.Capacity, watches: map[string]*recovery.Watch{},
	}
	if v.config.Roles.Recovery {
		o.watches["crashed"], o.watches["stuck"] = v.crashed, v.stuck
	}
	if v.config.Roles.Worker {
		o.pool = v.pool
	}
	return o
}

// order lists the parts as they start; in reverse they stop: no more requests, then no more jobs, then what the pool left in the outbox
// goes to SQL while the writer still runs.
func (v *server) order() {
	c := v.config
	add := func(name string, within time.Duration, s service) {
		v.parts = append(v.parts, part{name: name, service: s, within: within})
	}
	if v.stores.server != nil {
		add("embedded redis", 3*time.Second, v.stores.server)
	}
	if v.tracing != nil {
		add("tracing", 4*time.Second, v.tracing)
	}
	add("statistics", 3*time.Second, v.stats)
	if v.ops != nil {
		add("ops http", 2*time.Second, v.ops) // it answers until the end
	}
	add("pulse", 3*time.Second, v.pulse)
	add("gate", 2*time.Second, v.gate)
	add("sql writer", 5*time.Second, v.writer)
	if c.Roles.Recovery {
		add("recovery", 5*time.Second, together{v.crashed, v.stuck, v.promoter, v.drainer, v.requeuer})
	}
	if c.Roles.Worker {
		add("workers", c.DrainTimeout+7*time.Second, v.pool)
	}
	if c.Roles.API {
		add("admission", 3*time.Second, v.door)
		add("events", 3*time.Second, v.hub)
		add("http", 5*time.Second, v.http)
	}
}

// self describes this process to the others; nil if it runs no jobs.
func (v *server) self() *job.WorkerInfo {
	if !v.config.Roles.Worker {
		return nil
	}
	host, _ := os.Hostname()
	s := v.pool.Stats()
	return &job.WorkerInfo{
		Name: v.nonce, Host: host, PID: os.Getpid(), Version: v.version, Slots: s.Slots, Running: s.Running, Stuck: s.Stuck, StartedAt: v.began.UTC(),
	}
}

// prepare brings the stores to where the parts can start: the schema is there, the set-up is the cluster's, the plans are read, the address
// is ours. Stores that are still booting are waited for, both at once.
func (v *server) prepare(ctx context.Context) error {
	var sql, redis error
	var group sync.WaitGroup
	group.Go(func() { sql = v.waitFor(ctx, "MYSQL_DSN", v.prepareSQL) })
	group.Go(func() { redis = v.waitFor(ctx, "REDIS_URL", v.prepareRedis) })
	group.Wait()
	if err := errors.Join(sql, redis); err != nil {
		return err
	}
	for _, s := range []*httpapi.Server{v.http, v.ops} {
		if s == nil {
			continue
		}
		if err := s.Bind(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *server) prepareSQL(ctx context.Context) error {
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := v.stores.archive.Ping(ping); err != nil {
		return err
	}
	return v.stores.archive.Migrate(ctx)
}

func (v *server) prepareRedis(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := v.pulse.read(call); err != nil {
		return err
	}
	if v.stores.mode == "embedded" {
		return nil
	}
	return checkDurability(call, v.queue, v.log)
}

// address is where a server listens; "" for none.
func address(s *httpapi.Server) string {
	if s == nil {
		return ""
	}
	return s.Addr()
}

// failed gets an error if a server stops serving by itself; nil, which never gets one, for none.
func failed(s *httpapi.Server) <-chan error {
	if s == nil {
		return nil
	}
	return s.Failed()
}
