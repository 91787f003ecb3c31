package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/queue"
	pool "github.com/tierq/tierq/internal/worker"
)

// worker is a process that runs jobs. Its connections for heartbeats and its other connections can be cut
// separately.
type worker struct {
	calls, beats *link
	clients      []queue.Clients
	pool         *pool.Pool
}

// hire starts a worker.
func (w *world) hire(ctx context.Context, name string, slots int) error {
	k := &worker{calls: newLink(w.store.server.Dial), beats: newLink(w.store.server.Dial)}
	clients, beat := queue.ConnectInMemory(k.calls.Dial), queue.ConnectInMemory(k.beats.Dial)
	clients.Beat, beat.Beat = beat.Beat, clients.Beat
	clients.WatchCalls(watch)
	k.clients = []queue.Clients{clients, beat}
	q := &told{Queue: queue.New(clients, w.book, w.options(name)), world: w, who: name}
	k.pool = pool.New(pool.Config{
		Slots: slots, Partitions: 1, PriorityBase: w.options(name).PriorityBase,
		HeartbeatInterval: w.options(name).HeartbeatInterval, ResultLimit: 64 << 10,
		DrainTimeout: 50 * time.Millisecond, Registry: registry(w.over), Plans: w.book, Log: w.log, Nonce: name,
	}, q, q, q, w.archive)
	w.mu.Lock()
	w.workers[name] = k
	w.mu.Unlock()
	if err := k.pool.Start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// kill cuts a worker's connections: to all others it is dead.
func (k *worker) kill() {
	k.beats.cut()
	k.calls.cut()
}

// revive heals the worker's connections.
func (k *worker) revive() {
	k.beats.heal()
	k.calls.heal()
}

// stop ends a worker. It heals the connections first: a pool that cannot deliver would be waited for.
func (k *worker) stop(ctx context.Context) {
	k.revive()
	_ = k.pool.Stop(ctx)
	for _, c := range k.clients {
		_ = c.Close()
	}
}
