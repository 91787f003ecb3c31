package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/auth"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/events"
	"github.com/tierq/tierq/internal/faktory"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/leasing"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/pages"
	"github.com/tierq/tierq/internal/push"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/sandbox"
	"github.com/tierq/tierq/internal/schedule"
	"github.com/tierq/tierq/internal/telemetry"
	"github.com/tierq/tierq/internal/worker"
)

// server is the wired parts of one process, in the order they start.
type server struct {
	config  config.Config
	nonce   string
	version string
	began   time.Time
	log     *slog.Logger

	stores    *stores
	outgoing  *outgoing
	plans     *job.PlanBook
	queueBook *job.QueueBook
	pauseBook *job.PauseBook
	pauses    *ledger.Pauses
	queues    *ledger.Queues
	registry  *handler.Registry
	types     offered // the types of the registry that submits may name

	gate       *admission.Gate
	queue      *queue.Queue
	view       *queue.View // the read side of the queue
	viewPoller *viewPoller
	alone      alone // of the viewPoller, in its order
	ready      *readiness
	metrics    *telemetry.Metrics
	stats      *telemetry.Stats
	tracing    *telemetry.Tracing
	ledger     *ledger.Ledger
	tiers      *ledger.Tiers
	writer     *archive.Writer
	journal    *archive.Journal // of every job, or of the members of batches
	pool       *worker.Pool
	leasing    *leasing.Room   // nil without the roles api and worker
	push       *push.Pusher    // nil without the role worker
	faktory    *faktory.Server // nil without TIERQ_FAKTORY_ADDR
	asks       job.AskBook     // what operators ask of workers
	signalled  atomic.Bool     // a signal has made the pool quiet
	terminated chan struct{}   // closed when an operator ends this process
	told       sync.Once
	hub        *events.Hub
	http       *httpapi.Server // nil without the api role, as is door
	door       *door
	health     *httpapi.Server // nil with the api role: then http serves the health on that address
	ops        *httpapi.Server // nil if it has no address of its own

	sqlAlive *sharedLook[struct{}] // whether SQL answers, for all health checks
	letters  *sharedLook[int64]    // how many dead letters there are, for all health checks

	keyring  *auth.Keyring
	sessions *auth.Sessions
	limiter  *auth.Limiter
	doors    *auth.Doors
	keys     *auth.Keys
	changes  *auth.Changes

	crashed, stuck *recovery.Watch
	promoter       *recovery.Promoter
	drainer        *recovery.Drainer
	live           *pages.Hub       // the dashboard's stream; nil without the API role
	feed           *pages.Feed      // the same
	alarms         *events.Hub      // the same
	face           *pages.Pages     // the same
	boxes          *sandbox.Manager // the sandboxes of /demo; nil = /demo is not served
	reconciler     *recovery.Reconciler
	lines          *ledger.Lines
	places         *admission.Reserver // for what SQL makes
	reserved       *ledger.Places
	schedules      *schedule.Book
	firer          *schedule.Firer // nil without the role recovery
	audit          *recovery.Audit
	forgetter      *recovery.Forgetter // nil: Redis is embedded and has no limit
	retention      *recovery.Retention

	parts []part
}

func newServer(c config.Config, s *stores, out *outgoing, o Options) (*server, error) {
	v := &server{config: c, nonce: newNonce(), version: o.Version, began: time.Now(), log: o.Log, stores: s, outgoing: out,
		plans: &job.PlanBook{}, queueBook: &job.QueueBook{}, pauseBook: &job.PauseBook{}, terminated: make(chan struct{})}
	var err error
	if v.tracing, err = telemetry.NewTracing(c.OTLPEndpoint, o.Version, o.Log); err != nil {
		return nil, err
	}
	v.wireQueue()
	if err := v.wireDoors(); err != nil {
		return nil, err
	}
	if err := v.wireRegistry(o); err != nil {
		return nil, err
	}
	if err := v.wireWork(); err != nil {
		return nil, err
	}
	v.order()
	return v, nil
}

// order lists the parts in the order they start. They stop in reverse: first no more requests, then no more jobs,
// then the outcomes that the pool left in the outbox go to SQL while the writer still runs.
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
	if v.listens() {
		add("rates", time.Second, stopping(v.limiter.Stop))
	}
	if v.needsKeys() {
		add("keys", 3*time.Second, v.keyring)
	}
	if v.ops != nil {
		add("ops http", 2*time.Second, v.ops) // answers until the end
	}
	if v.health != nil {
		add("health http", 2*time.Second, v.health) // answers until the end
	}
	add("view of the cluster", 3*time.Second, v.viewPoller)
	add("gate", 2*time.Second, v.gate)
	add("sql writer", 5*time.Second, v.writer)
	if c.Roles.API {
		add("log of changes", 5*time.Second, v.changes)
	}
	add("journal", 3*time.Second, v.journal)
	if c.Roles.Recovery {
		loops := together{v.crashed, v.stuck, v.promoter, v.drainer, v.reconciler, v.audit, v.firer}
		if v.forgetter != nil {
			loops = append(loops, v.forgetter)
		}
		add("recovery", 5*time.Second, loops)
	}
	add("retention", 3*time.Second, v.retention)
	if c.Roles.API || c.Roles.Worker {
		add("leases of others", 3*time.Second, v.leasing)
	}
	if c.Roles.Worker {
		add("workers", c.DrainTimeout+7*time.Second, together{v.pool, v.push})
	}
	if c.Roles.API {
		add("admission", 3*time.Second, v.door)
		add("events", 3*time.Second, v.hub)
		add("dashboard", 3*time.Second, dashboard{v.alarms, v.feed, v.live})
		if v.boxes != nil {
			add("demo", 3*time.Second, v.boxes)
		}
		if v.faktory != nil {
			add("faktory", 5*time.Second, v.faktory)
		}
		add("http", 5*time.Second, v.http)
	}
}

// self describes this process to other processes; nil if it runs no jobs.
func (v *server) self() *job.WorkerInfo {
	host, _ := os.Hostname()
	if !v.config.Roles.Worker {
		if !v.config.Roles.API {
			return nil
		}
		return &job.WorkerInfo{
			Name: v.nonce, Kind: job.APIProcess, Host: host, PID: os.Getpid(), Version: v.version,
			StartedAt: v.began.UTC(), Pauses: v.pauseBook.All().Version,
		}
	}
	s, state := v.pool.Stats(), job.WorkerRuns
	if v.signalled.Load() {
		state = job.WorkerQuiet
	}
	return &job.WorkerInfo{
		Name: v.nonce, Kind: job.ServerWorker, State: state, Language: "go", Host: host, PID: os.Getpid(),
		Version: v.version, Slots: s.Slots, Running: s.Running, Stuck: s.Stuck,
		StartedAt: v.began.UTC(), Queues: v.serves(),
		Settings: v.config.Alike(), OwnFree: ownFree(v.plans.All(), s.Room.Own), Pauses: v.pauseBook.All().Version,
	}
}

// prepare makes the stores ready for the parts: it migrates the schema, checks that the set-up is the cluster's,
// loads the plans, and binds the addresses. It waits for both stores at once if they are still starting.
func (v *server) prepare(ctx context.Context) error {
	if err := v.prepareStores(ctx); err != nil {
		return err
	}
	if err := v.waitFor(ctx, "REDIS_URL", v.preparePlans); err != nil {
		return err
	}
	if v.stores.embedded != nil {
		if err := v.wakeUp(ctx); err != nil {
			return err
		}
	}
	if err := v.checkDoors(); err != nil {
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
	if err := v.bindFaktory(ctx); err != nil {
		return err
	}
	if v.health != nil {
		if err := v.health.Bind(ctx); err != nil {
			return fmt.Errorf("%w (every process serves its health there, whatever its roles)", err)
		}
	}
	if v.stores.embedded != nil {
		return v.stores.embedded.forget(ctx)
	}
	return nil
}

// prepareStores makes both stores ready, at once. An embedded Redis needs SQL first, which says what it may go on with.
func (v *server) prepareStores(ctx context.Context) error {
	if v.stores.embedded != nil {
		if err := v.waitFor(ctx, "TIERQ_DATA_DIR", v.prepareSQL); err != nil {
			return err
		}
		if err := v.stores.embedded.load(ctx, v.queue); err != nil {
			return err
		}
		return v.waitFor(ctx, "REDIS_URL", v.prepareRedis)
	}
	var sql, redis error
	var group sync.WaitGroup
	group.Go(func() { sql = v.waitFor(ctx, "MYSQL_DSN", v.prepareSQL) })
	group.Go(func() { redis = v.waitFor(ctx, "REDIS_URL", v.prepareRedis) })
	group.Wait()
	return errors.Join(sql, redis)
}

func (v *server) prepareSQL(ctx context.Context) error {
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := v.stores.database.Ping(ping); err != nil {
		return err
	}
	if err := v.stores.database.Migrate(ctx); err != nil || !v.needsKeys() {
		return err
	}
	return v.keyring.Load(ctx)
}

func (v *server) prepareRedis(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for range 5 { // the quickest reading is the most exact one
		if _, err := v.queue.ReadClock(call); err != nil {
			return err
		}
	}
	if err := v.queue.CheckSetup(call); err != nil || v.stores.mode == "embedded" {
		return err
	}
	return checkDurability(call, v.view, v.log)
}

// preparePlans reads the first view of the cluster. In this step a Redis that lost its data gets its plans back
// from SQL, before any job needs them; so both stores must be ready.
func (v *server) preparePlans(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return v.viewPoller.read(call)
}

// wakeUp makes what the last process left in an embedded server serve again, before any caller asks for it: the keys of
// a snapshot, and the jobs of rows.
func (v *server) wakeUp(ctx context.Context) error {
	if err := v.stores.embedded.resume(ctx); err != nil {
		return fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	if _, err := v.ledger.Reconcile(ctx); err != nil {
		return fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	return nil
}

// address returns where a server listens; "" without a server.
func address(s *httpapi.Server) string {
	if s == nil {
		return ""
	}
	return s.Addr()
}

// failed returns a channel that gets an error if a server stops serving by itself; without a server it is nil and
// never gets one.
func failed(s *httpapi.Server) <-chan error {
	if s == nil {
		return nil
	}
	return s.Failed()
}
