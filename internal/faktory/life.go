package faktory

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The life of a lease. The open connections of its worker are its heartbeat, not BEAT: a worker whose event loop is
// blocked for minutes sends no BEAT, and still runs its job.
// times.go has its times.
const lostFor = 24 * time.Hour // a lost lease stays in the book for its worker's report

// extendAll extends the leases of all workers that have a connection here, or had one within graceTime.
func (s *Server) extendAll(ctx context.Context) time.Duration {
	began := time.Now()
	byKey := map[string][]*held{}
	for _, w := range s.workers.list() {
		if w.named {
			if err := s.readBook(ctx, w); err != nil {
				s.Log.Debug("the leases of a Faktory worker cannot be read", "worker", w.name, "err", err)
			}
		}
		byKey[w.key] = append(byKey[w.key], s.alive(w)...)
		s.see(w)
	}
	for key, all := range byKey {
		for len(all) > 0 && ctx.Err() == nil {
			n := min(len(all), job.MaxBatch)
			if err := s.extend(ctx, key, all[:n]); err != nil {
				s.Log.Warn("leases of Faktory workers were not extended", "leases", n, "err", err)
			}
			all = all[n:]
		}
	}
	return max(extendEvery-time.Since(began), time.Second)
}

// readBook adds to what a worker is known to hold what the book has.
func (s *Server) readBook(ctx context.Context, w *worker) error {
	all, err := s.Book.HeldLeases(ctx, w.key, w.book())
	if err != nil {
		return err
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	there := make(map[string]bool, len(all))
	for _, h := range all {
		there[h.Field] = true
		if w.held[h.Field] == nil {
			w.held[h.Field] = &held{HeldLease: h, at: now}
		}
	}
	for field, h := range w.held {
		if !there[field] && now.Sub(h.at) > extendEvery { // another process has ended it
			delete(w.held, field)
		}
	}
	return nil
}

// alive returns the leases of a worker that are to be extended. It forgets those that are lost for long.
func (s *Server) alive(w *worker) (all []*held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for field, h := range w.held {
		switch {
		case h.lost.Load() == nil && (w.named || h.conn != nil):
			all = append(all, h)
		case h.lost.Load() != nil && time.Since(*h.lost.Load()) > lostFor:
			delete(w.held, field)
			s.drops.add(job.HeldRef{Key: w.key, Worker: w.book(), Field: field})
		}
	}
	return all
}

// extend extends some leases of one API key, and marks those that are lost.
func (s *Server) extend(ctx context.Context, key string, all []*held) error {
	beats := make([]job.WorkerBeat, len(all))
	for i, h := range all {
		beats[i] = job.WorkerBeat{Sealed: h.Sealed, Extend: leaseFor}
	}
	pulses, err := s.Leases.Heartbeat(ctx, key, beats)
	now := time.Now()
	for i := range pulses {
		if pulses[i].Word == job.Lost {
			all[i].lost.CompareAndSwap(nil, &now)
		}
	}
	return err
}

// see tells operators that a worker is there.
func (s *Server) see(w *worker) {
	if !w.named {
		return
	}
	w.mu.Lock()
	info, queues, running, here := w.info, w.queues, 0, w.conns > 0
	for _, h := range w.held {
		if h.lost.Load() == nil {
			running++
		}
	}
	w.mu.Unlock()
	if here {
		s.Leases.See(job.WorkerSight{
			Key: w.key, Worker: w.name, Kind: job.FaktoryWorker, Queues: queues, Running: running, BeatEvery: extendEvery,
			Info: &info,
		})
	}
}
