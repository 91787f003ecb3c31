package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
)

// pace is the pace of the box's watches, with shorter bounds than a server's.
var pace = loop.Pace{Floor: 500 * time.Millisecond, Ceiling: 8 * time.Second}

// world is where a scenario plays: a Redis, a server and its workers, wired as internal/app wires them. A new
// world is made for each scenario.
type world struct {
	emit  func(Event)
	log   *slog.Logger
	store store
	book  *job.PlanBook
	turn  chan struct{} // held while a call is made and its events are published
	over  chan struct{} // closed when the world ends

	link    *link // the server's link
	clients queue.Clients
	server  *told
	archive *archive
	gate    *admission.Gate
	door    *admission.Admission
	crashed *recovery.Watch
	stuck   *recovery.Watch
	parts   []service // the server's parts, in the order they start
	workers map[string]*worker

	mu       sync.Mutex
	tiers    map[job.ID]job.Tier
	suspects map[string]bool
	room     Capacity
	gated    Gate
}

// service is a part that can be started and stopped.
type service interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// options returns the queue options, which are the same for all processes of a box.
func (w *world) options(nonce string) queue.Options {
	return queue.Options{
		Nonce: nonce, Partitions: 1, PriorityBase: 1e13, Capacity: Limit, ScheduledLimit: Limit,
		HeartbeatInterval: 500 * time.Millisecond,
		Retention:         time.Hour, FailedRetention: time.Hour, KeepEnded: 1000, Embedded: true, Log: w.log,
	}
}

func newWorld(emit func(Event)) *world {
	// the errors of the box's workers and watches are part of the story and do not belong in the real server's log
	log := slog.New(slog.DiscardHandler)
	w := &world{
		emit: emit, log: log, store: newStore(), book: &job.PlanBook{}, turn: make(chan struct{}, 1),
		over:    make(chan struct{}),
		workers: map[string]*worker{}, tiers: map[job.ID]job.Tier{}, suspects: map[string]bool{},
		room: Capacity{Limit: Limit},
	}
	w.book.Set(plans())
	w.link = newLink(w.store.server.Dial)
	w.clients = queue.ConnectInMemory(w.link.Dial)
	w.clients.WatchCalls(watch)
	o := w.options("server")
	o.Observe = func(_ string, partition int, _ time.Duration, err error) {
		w.gate.Observe(partition, err)
		w.lookAtGate()
	}
	q := queue.New(w.clients, w.book, o)
	w.server = &told{Queue: q, world: w}
	w.gate = admission.NewGate(admission.GateOptions{Probe: w.probe, Log: log})
	w.gated = w.gateNow()
	w.archive = newArchive(w.server.Acknowledge)
	drainer := recovery.NewDrainer(w.server, w.archive, 1, log)
	w.archive.wake = drainer.Wake
	nobody := func(job.Watch, job.Reclaimed) {}
	w.crashed = recovery.NewWatch(job.Crashed, pace, w.server, 1, nobody, log)
	w.stuck = recovery.NewWatch(job.Stuck, pace, w.server, 1, nobody, log)
	promoter := recovery.NewPromoter(w.server, 1, w.wake, log)
	for _, loop := range []interface{ Wake() }{w.crashed, w.stuck, drainer} {
		w.gate.OnOpen(loop.Wake)
	}
	w.door = admission.New(admission.Options{Queue: w.server, Plans: w.book, Gate: w.gate, Partitions: 1,
		Rate: q.View().Rate, Log: log})
	w.parts = []service{w.gate, w.archive, w.crashed, w.stuck, promoter, drainer, w.door}
	return w
}

// start prepares the empty queue and starts the server. The scenario starts the workers.
func (w *world) start(ctx context.Context) error {
	if err := w.server.CheckSetup(ctx); err != nil {
		return err
	}
	if err := w.server.LoadPlans(ctx); err != nil {
		return err
	}
	if _, err := w.server.ReadClock(ctx); err != nil {
		return err
	}
	for _, p := range w.parts {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop ends everything that runs. Nothing of it is published, because the scenario is over.
func (w *world) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	close(w.over)
	problems := []error{w.door.Stop(ctx)}
	var group sync.WaitGroup
	for _, k := range w.workers {
		group.Go(func() { k.stop(ctx) })
	}
	group.Wait()
	for i := range w.parts {
		problems = append(problems, w.parts[len(w.parts)-1-i].Stop(ctx))
	}
	problems = append(problems, w.clients.Close())
	w.store.close()
	return errors.Join(problems...)
}

// wake wakes the workers when a job is ready, as a server does for its own pool.
func (w *world) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.workers {
		k.pool.Wake()
	}
}

// know stores a job's tier for later events.
func (w *world) know(id job.ID, t job.Tier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tiers[id] = t
}

func (w *world) tier(id job.ID) job.Tier {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tiers[id]
}

// suspect returns true the first time that a watch reports this job. The watch reports a suspect each time until
// it acts.
func (w *world) suspect(watch job.Watch, id job.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := string(watch) + string(id)
	before := w.suspects[key]
	w.suspects[key] = true
	return !before
}

// lookAtCapacity publishes the capacity if it has changed. The caller holds the turn.
func (w *world) lookAtCapacity() {
	if now := w.store.capacity(); now != w.room {
		w.room = now
		w.emit(Event{Kind: CapacityChanged, Capacity: &now,
			Note: fmt.Sprintf("%d of %d taken, %d ready", now.Used, now.Limit, now.Waiting)})
	}
}

func (w *world) gateNow() Gate {
	s := w.gate.State()
	return Gate{Open: s.Open, Failures: s.Failures, Threshold: s.Threshold, Reason: s.Reason}
}

// lookAtGate publishes the gate's state if it has changed. Further failures while the gate is closed are not
// published.
func (w *world) lookAtGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.gateNow()
	if now == w.gated || !now.Open && !w.gated.Open {
		return
	}
	note := "open"
	switch {
	case !now.Open:
		note = "closed: " + now.Reason
	case now.Failures > 0:
		note = fmt.Sprintf("%d of %d consecutive errors", now.Failures, now.Threshold)
	}
	w.gated = now
	w.emit(Event{Kind: GateChanged, Gate: &now, Note: note})
}

// probe is the gate's probe: a tiny write.
func (w *world) probe(ctx context.Context) error {
	err := w.server.Probe(ctx)
	if err != nil {
		now := w.gateNow()
		w.emit(Event{Kind: GateChanged, Gate: &now, Note: "a probe failed; the next one comes in 2 s"})
	}
	return err
}
