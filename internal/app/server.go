package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/worker"
)

// server is the rooms of one process, wired, in the order they start.
type server struct {
	nonce  string
	stores *stores
	queue  *queue.Queue
	gate   *admission.Gate
	pulse  *pulse
	ready  *readiness
	http   *httpapi.Server // nil without the api role
	parts  []part
	log    *slog.Logger
}

// waking tells the pool of this process about a submit at once: its own doorbell would take a turn through Redis.
type waking struct {
	*queue.Queue
	wake func()
}

func (w waking) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.Word, error) {
	words, err := w.Queue.Submit(ctx, partition, batch)
	if err == nil {
		w.wake()
	}
	return words, err
}

// recorder is the pool's way to SQL: the writer, or for what it did not offer the drainer.
type recorder struct {
	*archive.Writer
	wake func()
}

func (r recorder) Wake() { r.wake() }

func newServer(c config.Config, s *stores, o Options) *server {
	log := o.Log
	v := &server{nonce: newNonce(), stores: s, log: log}
	plans := &job.PlanBook{}
	v.gate = admission.NewGate(admission.GateOptions{
		Probe:       func(ctx context.Context) error { return v.queue.Probe(ctx) },
		Threshold:   c.GateThreshold,
		OutboxCount: int64(c.OutboxLimit),
		OutboxBytes: 256 << 20,
		Log:         log,
	})
	v.queue = queue.New(s.clients, plans, queue.Options{
		Nonce: v.nonce, Partitions: c.Partitions, PriorityBase: c.PriorityBase, Capacity: c.Capacity, ScheduledLimit: c.ScheduledLimit,
		HeartbeatInterval: c.HeartbeatInterval, Retention: s.retention(c.Retention), FailedRetention: s.retention(c.FailedRetention),
		KeepEnded: c.KeepEnded, Observe: v.gate.Observe, Log: log,
	})
	v.pulse = newPulse(v.queue, v.gate.SetOutbox, log)
	v.ready = &readiness{gate: v.gate, archive: s.archive}

	registry := job.NewRegistry()
	handlers.Register(registry)
	if o.Handlers != nil {
		o.Handlers(registry)
	}

	writer := archive.NewWriter(s.archive, v.queue, archive.WriterOptions{Log: log})
	crashed := recovery.NewWatch(job.Crashed, recovery.CrashedPace, v.queue, c.Partitions, log)
	stuck := recovery.NewWatch(job.Stuck, recovery.StuckPace, v.queue, c.Partitions, log)
	drainer := recovery.NewDrainer(v.queue, writer, c.Partitions, log)
	pool := worker.New(worker.Config{
		Slots: c.Workers, Partitions: c.Partitions, HeartbeatInterval: c.HeartbeatInterval, ResultLimit: c.ResultLimit,
		DrainTimeout: c.DrainTimeout, Registry: registry, Plans: plans, Log: log, Nonce: v.nonce,
	}, v.queue, v.queue, v.queue, recorder{Writer: writer, wake: drainer.Wake})
	wake := func() {}
	if c.Roles.Worker {
		wake = pool.Wake
	}
	promoter := recovery.NewPromoter(v.queue, c.Partitions, wake, log)
	door := admission.New(admission.Options{Queue: waking{v.queue, wake}, Plans: plans, Gate: v.gate, Partitions: c.Partitions, Log: log})
	v.gate.OnOpen(crashed.Wake)
	v.gate.OnOpen(stuck.Wake)
	v.gate.OnOpen(drainer.Wake)

	// In this order they start; in reverse they stop: no more requests, then no more jobs, then what the pool left in the outbox goes to SQL
	// while the writer still runs.
	add := func(name string, within time.Duration, s service) {
		v.parts = append(v.parts, part{name: name, service: s, within: within})
	}
	if s.server != nil {
		add("embedded redis", 3*time.Second, s.server)
	}
	add("pulse", 3*time.Second, v.pulse)
	add("gate", 2*time.Second, v.gate)
	add("sql writer", 5*time.Second, writer)
	if c.Roles.Recovery {
		add("recovery", 5*time.Second, together{crashed, stuck, promoter, drainer})
	}
	if c.Roles.Worker {
		add("workers", c.DrainTimeout+7*time.Second, pool)
	}
	if c.Roles.API {
		v.http = httpapi.NewServer(c.Addr, httpapi.NewHandler(httpapi.Deps{
			Submit: door, Find: finder{v.queue, s.archive}, Ready: v.ready, Types: registry, Plans: plans, PayloadLimit: c.PayloadLimit, Log: log,
		}), log)
		add("admission", 3*time.Second, door)
		add("http", 5*time.Second, v.http)
	}
	return v
}

// prepare brings the stores to where the parts can start: the schema is there, the set-up is the cluster's, the plans are read, the address
// is ours. Stores that are still booting are waited for, both at once.
func (v *server) prepare(ctx context.Context) error {
	var sql, redis error
	var group sync.WaitGroup
	group.Go(func() { sql = v.waitFor(ctx, "MYSQL_DSN", v.prepareSQL) })
	group.Go(func() { redis = v.waitFor(ctx, "REDIS_URL", v.prepareRedis) })
	group.Wait()
	if err := errors.Join(sql, redis); err != nil || v.http == nil {
		return err
	}
	return v.http.Bind(ctx)
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

// address is where the API listens; "" without the api role.
func (v *server) address() string {
	if v.http == nil {
		return ""
	}
	return v.http.Addr()
}

// failed gets an error if the API stops serving by itself; nil, which never gets one, without the api role.
func (v *server) failed() <-chan error {
	if v.http == nil {
		return nil
	}
	return v.http.Failed()
}
