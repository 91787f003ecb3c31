package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/worker"
)

// service is a part of a process that can be started and stopped.
type service interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// Leases are the methods by which a pool moves its jobs.
type Leases interface {
	worker.Queue
	worker.Heartbeater
}

// process is one process of tierq, from its start until it dies. slot is its place in the cluster. The next
// process in that place has another nonce.
type process struct {
	world *World
	slot  int
	nonce string

	client  *redis.Client
	queue   *queue.Queue
	pool    *worker.Pool
	drainer *recovery.Drainer
	writer  *writer
	plans   *job.PlanBook
	pauses  *job.PauseBook
	held    map[string]time.Time // since when it knows of each pause, by scope
	ownAt   time.Time            // since when it knows of the own slots; zero = there are none
	ledger  *ledger.Ledger
	// reserver keeps places for the jobs of flows and schedules.
	reserver *admission.Reserver
	limits   *ledger.Lines // nil = the seed has no lines
	parts    []service     // in the order of their start

	dead      bool          // guarded by gate.mu: its calls fail at once
	died      chan struct{} // closed when dead is set
	gone      chan struct{} // closed when none of its goroutines is left
	draining  bool
	began     time.Time
	drained   time.Time            // when its drain began
	silent    atomic.Bool          // its pool has stopped: its leases get no heartbeats any more
	retired   bool                 // its drain has ended
	cutOff    time.Time            // until then a partition keeps it from Redis
	disturbed map[string]time.Time // by line: when a call last failed or had to wait
	failures  map[string]int       // by line: how many calls failed in a row

	connected bool
}

// newProcess wires a process as app does it and starts it.
func newProcess(w *World, slot int) *process {
	w.lives++
	p := &process{
		world: w, slot: slot, nonce: fmt.Sprintf("p%d-%02d", slot, w.lives), died: make(chan struct{}),
		gone:  make(chan struct{}),
		began: time.Now(), disturbed: map[string]time.Time{}, failures: map[string]int{},
		pauses: &job.PauseBook{}, held: map[string]time.Time{},
	}
	p.client = newClient(p.redis)
	log := slog.New(slog.DiscardHandler)
	plans := &job.PlanBook{}
	plans.Set(w.tiers)
	p.plans = plans
	queues := declared()
	serves := []string{job.MainQueue, otherQueue}
	if slot%2 == 1 {
		slices.Reverse(serves)
	}
	partitions := w.plan.partitions
	p.queue = queue.New(queue.Clients{Main: p.client, Read: p.client, Worker: p.client, Bell: p.client, Beat: p.client,
		Rate: p.client}, plans, queue.Options{
		Nonce: p.nonce, Partitions: partitions, PriorityBase: base, Capacity: w.plan.capacity,
		ScheduledLimit: w.plan.capacity,
		LivingLimit:    w.plan.living, LivingBytes: w.plan.bytes, LaterLimit: w.plan.laters, LaterAge: w.plan.laterAge,
		UnknownFor:        w.plan.unknownFor,
		HeartbeatInterval: 500 * time.Millisecond, Retention: w.plan.retention, FailedRetention: w.plan.retention,
		KeepEnded: 1_000_000, KeepKeys: w.plan.keepKeys, Journal: w.plan.journal, Log: log,
		Queues: queues, Serves: serves, Pauses: p.pauses,
	})
	p.writer = newWriter(p)
	sql := archive{p}
	var journal ledger.Journal
	if w.plan.journal {
		journal = sql
	}
	if w.plan.lines != nil {
		p.limits = &ledger.Lines{SQL: sql, Redis: p.queue, Partitions: partitions, Log: log}
	}
	var flows ledger.Flows
	if w.Flows {
		flows = flowTable{p}
	}
	given := p.limits
	if w.NoLimits {
		given = nil
	}
	var places *ledger.Places
	if w.Flows || w.Schedules {
		places = &ledger.Places{
			SQL: placeTable{p}, Redis: p.queue, Partitions: partitions, Now: p.queue.View().Now, Log: log,
		}
	}
	p.reserver = &admission.Reserver{Redis: p.queue, Log: log}
	p.ledger = ledger.New(ledger.Options{
		Live: p.queue.View(), Mover: p.queue, Archive: sql, DeadLetters: sql, Promises: sql, Rows: sql, Restorer: p.queue,
		Journal: journal, Journaled: w.plan.journal, Lines: given,
		Plans: plans, Queues: queues, Partitions: partitions, Log: log, Flows: flows,
		Places: places,
	})
	p.drainer = recovery.NewDrainer(p.queue, p.writer, partitions, log)
	var between Leases = p.queue
	if w.Between != nil {
		between = w.Between(p.queue)
	}
	p.pool = worker.New(worker.Config{
		Slots: w.plan.slots[slot], Partitions: partitions, HeartbeatInterval: 500 * time.Millisecond,
		ResultLimit: 1 << 10, DrainTimeout: 2*time.Second + 3*offBeat,
		Registry: w.registry(p), Plans: plans, Log: log, Nonce: p.nonce,
	}, between, between, p.queue, p.writer)
	p.hear()
	p.parts = []service{p.writer}
	if w.plan.recovers[slot] {
		none := func(job.Watch, job.Reclaimed) {}
		p.parts = append(p.parts, recovery.NewWatch(job.Crashed, recovery.CrashedPace, p.queue, partitions, none, log),
			recovery.NewWatch(job.Stuck, recovery.StuckPace, p.queue, partitions, none, log),
			recovery.NewPromoter(p.queue, partitions, func() {}, log), p.drainer, recovery.NewReconciler(p.ledger, log))
		if w.Schedules {
			p.parts = append(p.parts, newFirer(p, queues, p.ledger, log))
		}
	}
	for _, s := range p.parts {
		_ = s.Start(context.Background()) // a first start cannot fail
	}
	p.parts = append(p.parts, p.pool)
	// Without Redis' clock a process does not notice that a submit is late.
	w.others.Go(func() { _, _ = p.queue.ReadClock(context.Background()) })
	w.others.Go(func() {
		<-time.After(offBeat)
		_ = p.pool.Start(context.Background())
	})
	return p
}

// declared returns the queues that are declared in every run.
func declared() *job.QueueBook {
	queues := &job.QueueBook{}
	queues.Set([]job.Queue{{Name: otherQueue, Limit: 1_000_000, Version: 1}})
	return queues
}

// redis brings a call of go-redis to the gate.
func (p *process) redis(ctx context.Context, c *call) (any, error) {
	c.proc, c.line = p, c.name
	if c.name == "heartbeat" && c.args[c.keys+4] != "0" {
		c.line = "checkpoint"
	}
	if c.elsewhere() {
		c.line = "of an outsider" // its calls do not follow those of the process
	}
	return p.world.gate.pass(ctx, c)
}

// stop is SIGTERM: the parts stop in reverse order, and then the process is gone.
func (p *process) stop() {
	p.draining = true
	go func() {
		for i := len(p.parts) - 1; i >= 0; i-- {
			_ = p.parts[i].Stop(context.Background())
			p.silent.Store(true) // the pool is the first part to stop
		}
		_, _ = p.world.gate.pass(context.Background(),
			&call{proc: p, kind: inside, name: "stopped", do: func() (any, error) { p.world.retire(p); return nil, nil }})
		close(p.gone)
	}()
}

// kill is SIGKILL: from now on all calls of the process fail, and its goroutines end because of that. It returns
// the calls that waited at the gate. It also answers the calls that the scheduler had taken from the gate: each
// caller must find its process dead, and its answer before its context ends.
func (p *process) kill(taken ...*call) []*call {
	its := p.world.gate.bury(p)
	close(p.died)
	for _, c := range append(taken, its...) {
		c.answer <- answer{err: errReset} // the call had been sent
	}
	if p.draining {
		return its // the goroutine of stop ends by itself
	}
	p.draining = true
	go func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.pool.Stop(over)
		for i := len(p.parts) - 2; i >= 0; i-- {
			_ = p.parts[i].Stop(context.Background())
		}
		close(p.gone)
	}()
	return its
}

func (p *process) alive() bool { return !p.dead }
